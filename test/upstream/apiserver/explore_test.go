package upstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/conformance"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/samples"
)

// walkLength is the number of accepted changes after which a walk starts again at the sample.
const walkLength = 60

// Explorer makes cases about one kind. It begins with the kind's sample, and changes it again and
// again: what Kubernetes accepts is the base of the next change, so that the objects grow.
type Explorer struct {
	oracle *Oracle
	ours   *conformance.Rules
	kind   *scheme.Kind
	sample scheme.Object
	values *Values
	// see receives each case with both answers.
	see func(c conformance.Case, ours, theirs conformance.Answer) error
}

// NewExplorer returns an explorer whose changes depend on seed only.
func NewExplorer(oracle *Oracle, ours *conformance.Rules, kind *scheme.Kind, set *samples.Set, constants map[string][]string, seed uint64,
	see func(c conformance.Case, ours, theirs conformance.Answer) error,
) *Explorer {
	return &Explorer{
		oracle: oracle, ours: ours, kind: kind, sample: set.Of(kind), see: see,
		values: &Values{random: rand.New(rand.NewPCG(seed, 1)), constants: constants},
	}
}

// Sample asks about the sample itself, and about each value at a limit in each of its places.
func (e *Explorer) Sample() error {
	stored, err := e.create(e.sample)
	if err != nil {
		return err
	}
	if stored == nil {
		return fmt.Errorf("Kubernetes rejects the sample of a %s", e.kind.Kind)
	}
	for _, set := range Boundaries(e.sample, true) {
		if err := e.from(e.sample, set, func(obj scheme.Object) error {
			_, err := e.create(obj)
			return err
		}); err != nil {
			return err
		}
	}
	for _, set := range Boundaries(stored, false) {
		if err := e.from(stored, set, func(obj scheme.Object) error { return e.updates(obj, stored) }); err != nil {
			return err
		}
	}
	return nil
}

// from calls ask with a changed copy of base, if it has a JSON form.
func (e *Explorer) from(base scheme.Object, change func(any), ask func(scheme.Object) error) error {
	obj, err := e.copied(base)
	if err != nil {
		return err
	}
	change(obj)
	if obj, err = e.copied(obj); err != nil {
		return nil //nolint:nilerr // No client can send it.
	}
	return ask(obj)
}

// Walk asks about n random objects: creation, printing, and updates of the last accepted object.
func (e *Explorer) Walk(n int) error {
	base, accepted := e.sample, 0
	for range n {
		if accepted == walkLength {
			base, accepted = e.sample, 0
		}
		changes := 1 + e.values.random.IntN(2)
		mutate := func(renames bool) func(any) {
			return func(obj any) {
				for range changes {
					e.values.Mutate(obj, renames)
				}
			}
		}
		var next, stored scheme.Object
		err := e.from(base, mutate(true), func(obj scheme.Object) error {
			var err error
			next = obj
			stored, err = e.create(obj)
			return err
		})
		if err != nil {
			return err
		}
		if stored == nil {
			continue
		}
		base, accepted = next, accepted+1
		if err := e.from(stored, mutate(false), func(obj scheme.Object) error { return e.updates(obj, stored) }); err != nil {
			return err
		}
	}
	return nil
}

// create asks what happens if a client creates obj. It returns what Kubernetes stores; nil if it
// rejects obj.
func (e *Explorer) create(obj scheme.Object) (scheme.Object, error) {
	theirs, err := e.ask(conformance.OpCreate, obj, nil)
	if err != nil || len(theirs.Stored) == 0 {
		return nil, err
	}
	stored := e.kind.New()
	if err := json.Unmarshal(theirs.Stored, stored); err != nil {
		return nil, err
	}
	stored.SetResourceVersion("7")
	stored.GetObjectKind().SetGroupVersionKind(e.kind.GroupVersionKind)
	return stored, nil
}

// updates asks what happens if a client replaces old by obj, as a whole or in each subresource, and
// how obj is printed.
func (e *Explorer) updates(obj, old scheme.Object) error {
	ops := []string{conformance.OpUpdate, conformance.OpPrint}
	for _, subresource := range e.ours.Subresources(e.kind) {
		ops = append(ops, conformance.OpUpdate+"/"+subresource)
	}
	for _, op := range ops {
		if _, err := e.ask(op, obj, old); err != nil {
			return err
		}
	}
	return nil
}

func (e *Explorer) ask(op string, obj, old scheme.Object) (conformance.Answer, error) {
	c := conformance.Case{Kind: e.kind.GroupVersionKind, Op: op}
	var err error
	if c.Object, err = json.Marshal(obj); err != nil {
		return conformance.Answer{}, err
	}
	if old != nil && op != conformance.OpPrint {
		if c.Old, err = json.Marshal(old); err != nil {
			return conformance.Answer{}, err
		}
	}
	theirs, err := e.oracle.Answer(c)
	if errors.Is(err, ErrNoAnswer) {
		return conformance.Answer{}, nil
	}
	if err != nil {
		return conformance.Answer{}, fmt.Errorf("asking Kubernetes to %s %s: %w", op, c.Object, err)
	}
	ours, err := e.ours.Answer(c)
	if err != nil {
		return conformance.Answer{}, fmt.Errorf("asking ourselves to %s %s: %w", op, c.Object, err)
	}
	if theirs, err = e.again(c, ours, theirs); err != nil {
		return conformance.Answer{}, err
	}
	return theirs, e.see(c, ours, theirs)
}

// attempts is the number of questions about a stateful set with more than one claim. With four claims, 100
// attempts miss an order in 1 of 70 cases.
const attempts = 100

// again asks Kubernetes again if its answer is one of several and not ours: it checks the claims of a stateful
// set in the order in which it finds them in a map.
func (e *Explorer) again(c conformance.Case, ours, theirs conformance.Answer) (conformance.Answer, error) {
	if e.kind.Kind != "StatefulSet" {
		return theirs, nil
	}
	for range attempts {
		found, err := conformance.Compare(ours, theirs)
		if err != nil || len(found) == 0 {
			return theirs, err
		}
		if theirs, err = e.oracle.Answer(c); err != nil {
			return theirs, err
		}
	}
	return theirs, nil
}

// copied returns a copy of an object by its JSON form, as a client would send it.
func (e *Explorer) copied(obj scheme.Object) (scheme.Object, error) {
	data, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	out := e.kind.New()
	if err := json.Unmarshal(data, out); err != nil {
		return nil, err
	}
	out.GetObjectKind().SetGroupVersionKind(e.kind.GroupVersionKind)
	return out, nil
}
