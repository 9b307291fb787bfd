package policies

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/manifests"
)

// definition is what both kinds of policies have in common.
type definition struct {
	name      string
	ignores   bool // failurePolicy Ignore
	paramKind *admissionregistrationv1.ParamKind
	match     *criteria
}

// binding is a binding of either kind.
type binding struct {
	name, policy string
	paramRef     *admissionregistrationv1.ParamRef
	match        *criteria // nil matches everything
	actions      []admissionregistrationv1.ValidationAction
}

// policy is a policy with its bindings, of which it has at least one.
type policy[E any] struct {
	definition
	bindings []binding
	compiled *compiled[E]
}

// compiled is one generation of a policy, compiled when a request first matches it.
type compiled[E any] struct {
	uid        types.UID
	generation int64
	evaluator  func() E
}

// source provides the policies that are in force, of the Go type P with bindings of the type B, which
// are evaluated by an E. It is safe for concurrent use.
type source[P, B scheme.Object, E any] struct {
	objects admission.Objects
	// files are the policies and bindings in files; nil for none.
	files *manifests.Manifests
	// define and bind read a policy and a binding. compile makes what evaluates a policy.
	define  func(P) definition
	bind    func(B) binding
	compile func(P) E
	// forget is told the names of policies that are in force no more.
	forget func(policy string)

	mu      sync.Mutex // held while current is replaced
	current atomic.Pointer[inForce[E]]
}

// inForce are the policies as of two versions, and of a set of files.
type inForce[E any] struct {
	policiesAt, bindingsAt admission.Version
	set                    *manifests.Set
	// policies are sorted by name, as are their bindings. The first ones, as many as static, are those of
	// files, sorted by themselves.
	policies []policy[E]
	static   int
}

// get returns the policies in force for a kind: those of files and then the others, each sorted by name.
// They are shared and must not be changed.
func (s *source[P, B, E]) get(ctx context.Context, kind *scheme.Kind) ([]policy[E], error) {
	if review(kind) {
		return nil, nil
	}
	set := s.files.Current(ctx)
	if configures(kind) && set == nil {
		return nil, nil
	}
	all, err := s.all(ctx, set)
	if err != nil {
		return nil, err
	}
	if configures(kind) {
		return all.policies[:all.static], nil
	}
	return all.policies, nil
}

func (s *source[P, B, E]) all(ctx context.Context, set *manifests.Set) (*inForce[E], error) {
	if have := s.current.Load(); have != nil {
		if same, err := s.holds(ctx, have, set); same || err != nil {
			return have, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	have := s.current.Load()
	if have != nil {
		if same, err := s.holds(ctx, have, set); same || err != nil {
			return have, err
		}
	}
	next, err := s.read(ctx, have, set)
	if err != nil {
		return nil, err
	}
	s.current.Store(next)
	return next, nil
}

// holds reports whether the policies are still those that were read.
func (s *source[P, B, E]) holds(ctx context.Context, have *inForce[E], set *manifests.Set) (bool, error) {
	if have.set != set || have.policiesAt == (admission.Version{}) || have.bindingsAt == (admission.Version{}) {
		return false, nil
	}
	_, _, changed, err := admission.ListSince[P](ctx, s.objects, have.policiesAt)
	if err != nil || changed {
		return false, err
	}
	_, _, changed, err = admission.ListSince[B](ctx, s.objects, have.bindingsAt)
	return !changed, err
}

// read reads all policies and bindings. It keeps what is compiled of generations that it has already.
func (s *source[P, B, E]) read(ctx context.Context, have *inForce[E], set *manifests.Set) (*inForce[E], error) {
	bindings, bindingsAt, _, err := admission.ListSince[B](ctx, s.objects, admission.Version{})
	if err != nil {
		return nil, err
	}
	policies, policiesAt, _, err := admission.ListSince[P](ctx, s.objects, admission.Version{})
	if err != nil {
		return nil, err
	}
	kept := map[string]*compiled[E]{}
	if have != nil {
		for _, p := range have.policies {
			kept[p.name] = p.compiled
		}
	}
	next := &inForce[E]{policiesAt: policiesAt, bindingsAt: bindingsAt, set: set}
	if set != nil {
		next.policies = s.join(of[P](set), of[B](set), kept)
		next.static = len(next.policies)
	}
	next.policies = append(next.policies, s.join(policies, bindings, kept)...)
	for name := range kept {
		s.forget(name)
	}
	return next, nil
}

// of returns the objects of a type in a set.
func of[T scheme.Object](set *manifests.Set) []T {
	var found []T
	for _, obj := range set.Objects {
		if is, ok := obj.(T); ok {
			found = append(found, is)
		}
	}
	return found
}

// join returns the policies that have bindings, sorted by name. It takes what is compiled already out of
// kept.
func (s *source[P, B, E]) join(policies []P, bindings []B, kept map[string]*compiled[E]) []policy[E] {
	bound := map[string][]binding{}
	for _, obj := range bindings {
		b := s.bind(obj)
		bound[b.policy] = append(bound[b.policy], b)
	}
	var joined []policy[E]
	for _, obj := range policies {
		of := bound[obj.GetName()]
		if len(of) == 0 {
			continue
		}
		slices.SortFunc(of, func(a, b binding) int { return cmp.Compare(a.name, b.name) })
		c := kept[obj.GetName()]
		delete(kept, obj.GetName())
		if c == nil || c.uid != obj.GetUID() || c.generation != obj.GetGeneration() {
			c = &compiled[E]{uid: obj.GetUID(), generation: obj.GetGeneration(), evaluator: sync.OnceValue(func() E { return s.compile(obj) })}
		}
		joined = append(joined, policy[E]{definition: s.define(obj), bindings: of, compiled: c})
	}
	slices.SortFunc(joined, func(a, b policy[E]) int { return cmp.Compare(a.name, b.name) })
	return joined
}

func newDefinition(
	name string, failure *admissionregistrationv1.FailurePolicyType, params *admissionregistrationv1.ParamKind,
	match *admissionregistrationv1.MatchResources,
) definition {
	d := definition{name: name, ignores: failureIgnored(failure), paramKind: params, match: criteriaOf(match)}
	if d.match == nil {
		d.match = &criteria{err: errors.New("policy contained no match constraints, a required field")}
	}
	return d
}

func failureIgnored(policy *admissionregistrationv1.FailurePolicyType) bool {
	return policy != nil && *policy == admissionregistrationv1.Ignore
}

func criteriaOf(match *admissionregistrationv1.MatchResources) *criteria {
	if match == nil {
		return nil
	}
	return newCriteria(match)
}
