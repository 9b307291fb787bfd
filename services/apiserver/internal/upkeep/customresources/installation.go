package customresources

import (
	"context"
	"reflect"
	"slices"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/custom"
)

// installation is what is in the catalog because of one definition.
type installation struct {
	of    *crd
	kinds []*scheme.Kind
}

// refusal is why a definition could not be installed.
type refusal struct {
	generation int64
	err        error
	delays     wait.Backoff
	again      time.Time
	settled    string // the version of the definition of which nothing else is left to do
}

// change is what the catalog is to have of a definition, instead of the kinds that it had.
type change struct {
	gone []*scheme.Kind
	made []*kinds.Definition
}

// installAll brings what the catalog has of definitions into step with them, and returns why it could not for
// each. It tries one that cannot be installed less and less often: what makes it fail is mostly in itself, and
// to read it can take seconds.
func (k *Keeper) installAll(ctx context.Context, batch []judged) []error {
	errs, changes, tried := make([]error, len(batch)), make([]change, len(batch)), make([]bool, len(batch))
	var gone []*scheme.Kind
	var made []*kinds.Definition
	for i, one := range batch {
		c := one.next
		if was := k.refused[c.UID]; was.err != nil && was.generation == c.Generation && time.Now().Before(was.again) {
			errs[i] = was.err
			continue
		}
		tried[i] = true
		changes[i], errs[i] = k.prepare(c)
		gone, made = append(gone, changes[i].gone...), append(made, changes[i].made...)
	}
	failed := false
	if len(made) > 0 {
		failed = k.cfg.Catalog.Replace(gone, made) != nil
	}
	for i, one := range batch {
		if of := changes[i]; len(of.made) > 0 {
			if failed { // Because of one of them.
				errs[i] = k.cfg.Catalog.Replace(of.gone, of.made)
			}
			if errs[i] == nil {
				k.installed[one.next.Name] = installationOf(one.next, of.made)
			}
		}
		if tried[i] {
			k.note(ctx, one.next, errs[i])
		}
	}
	return errs
}

// note records that a definition could be installed, or why not.
func (k *Keeper) note(ctx context.Context, c *crd, err error) {
	if err == nil {
		delete(k.refused, c.UID)
		return
	}
	was := k.refused[c.UID]
	k.cfg.Logger.WarnContext(ctx, "cannot serve a custom resource", "name", c.Name, "err", err)
	if was.err == nil || was.generation != c.Generation {
		was.delays = backoff.Doubling(retryPause/2, retryLargest/2, 2)
	}
	pause := was.delays.Step()
	k.refused[c.UID] = refusal{generation: c.Generation, err: err, delays: was.delays, again: time.Now().Add(pause)}
}

// unserved records why a definition is not served, if it never was. It reports whether the status changed.
func unserved(c *crd, why error) bool {
	next := condition{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionFalse, Reason: "NotServed", Message: why.Error()}
	was := apihelpers.FindCRDCondition(c, next.Type)
	if c.DeletionTimestamp != nil || was != nil && was.Status == apiextensionsv1.ConditionTrue || apihelpers.IsCRDConditionEquivalent(&next, was) {
		return false
	}
	setCondition(c, next)
	return true
}

// installable reports whether a definition has all the names under which it is served, and can be served.
func installable(c *crd) bool {
	established := apihelpers.IsCRDConditionTrue(c, apiextensionsv1.Established)
	return c.Status.AcceptedNames.Plural != "" && c.Status.AcceptedNames.Kind != "" &&
		(established || apihelpers.IsCRDConditionTrue(c, apiextensionsv1.NamesAccepted) && !custom.InvalidAuthority(c))
}

// prepare returns what the catalog is to have of a definition, which is nothing if it has that already. It
// removes what is there of a definition that is not installable.
func (k *Keeper) prepare(c *crd) (change, error) {
	was := k.installed[c.Name]
	switch {
	case !installable(c):
		k.remove(c.Name)
		return change{}, nil
	case was != nil && was.of.UID == c.UID && sameForClients(was.of, c):
		was.of = c
		return change{}, nil
	}
	definitions, err := custom.Definitions(c, k.cfg.Converters)
	if err != nil {
		return change{}, err
	}
	of := change{made: definitions}
	if was != nil {
		of.gone = was.kinds
		if was.of.UID == c.UID && sameInEtcd(was.of, c) {
			keepKinds(definitions, was.kinds)
		}
	}
	return of, nil
}

// installationOf returns what the catalog has of a definition.
func installationOf(c *crd, made []*kinds.Definition) *installation {
	now := &installation{of: c}
	for _, definition := range made {
		now.kinds = append(now.kinds, definition.Kind)
	}
	return now
}

// keepShared makes an installation refer to the definition in the watch cache, not to an equal copy of it.
func (k *Keeper) keepShared(c *crd) {
	if was := k.installed[c.Name]; was != nil {
		was.of = c
	}
}

// sameForClients reports whether two states of a definition serve the same.
func sameForClients(a, b *crd) bool {
	return (a.DeletionTimestamp != nil) == (b.DeletionTimestamp != nil) &&
		apiequality.Semantic.DeepEqual(a.Spec, b.Spec) && apiequality.Semantic.DeepEqual(a.Status.AcceptedNames, b.Status.AcceptedNames)
}

// sameInEtcd reports whether two states of a definition read the same from etcd, so that what is cached of
// their objects stays true.
func sameInEtcd(a, b *crd) bool {
	return a.Spec.PreserveUnknownFields == b.Spec.PreserveUnknownFields && apiequality.Semantic.DeepEqual(a.Spec.Conversion, b.Spec.Conversion) &&
		slices.EqualFunc(a.Spec.Versions, b.Spec.Versions, func(one, two apiextensionsv1.CustomResourceDefinitionVersion) bool {
			return one.Name == two.Name && one.Storage == two.Storage && apiequality.Semantic.DeepEqual(one.Schema, two.Schema)
		})
}

// keepKinds gives definitions the kinds that are installed, where they are equal, so that watches go on.
func keepKinds(definitions []*kinds.Definition, installed []*scheme.Kind) {
	for _, definition := range definitions {
		for _, kind := range installed {
			if reflect.DeepEqual(kind, definition.Kind) {
				definition.Kind = kind
			}
		}
	}
}

// remove removes what the catalog has of a definition.
func (k *Keeper) remove(name string) {
	if was := k.installed[name]; was != nil {
		for _, kind := range was.kinds {
			k.cfg.Catalog.Remove(kind.GroupVersionKind)
		}
		delete(k.installed, name)
	}
}

// removeOthers removes what the catalog has of definitions that are no longer there.
func (k *Keeper) removeOthers(all []*crd) {
	there := make(map[string]bool, len(all))
	for _, c := range all {
		there[c.Name] = true
	}
	for name := range k.installed {
		if !there[name] {
			k.remove(name)
		}
	}
}
