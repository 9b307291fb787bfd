package registry

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/registry/managedfields"
)

// Of returns the operations on the kind with the Go type T.
func Of[T scheme.Object](r *Registry) *Resource { return r.Resource(scheme.For[T](r.table)) }

// Definition returns what is known of the kind.
func (r *Resource) Definition() *kinds.Definition { return r.strategy }

// Owners records the owners of the fields of all kinds.
func (r *Resource) Owners() *managedfields.Owners { return r.owners }

// WithoutAdmission returns the same operations without admission plugins, for what the apiserver
// itself does as a part of an admitted request.
func (r *Resource) WithoutAdmission() *Resource {
	bare := *r
	bare.admission = &admission.Chain{}
	return &bare
}

// Admit runs the admission plugins on an object that a client creates below another, such as a Binding or
// an Eviction, or on the options with which it connects to a subresource. The plugins change obj in place.
func (r *Resource) Admit(ctx context.Context, verb admission.Verb, namespace, name, part string, obj scheme.Object, dryRun bool) error {
	return admit(ctx, r.admission, &admission.Request{
		Verb: verb, Kind: r.kind, Namespace: namespace, Name: name, Subresource: part, Object: obj, DryRun: dryRun,
	})
}

// Admit runs the admission plugins on an object of a virtual kind, which is answered and not
// stored. The plugins change obj in place.
func (r *Registry) Admit(ctx context.Context, kind *scheme.Kind, namespace string, obj scheme.Object, dryRun bool) error {
	return admit(ctx, r.admission, &admission.Request{
		Verb: admission.Create, Kind: kind, Namespace: namespace, Name: obj.GetName(), Object: obj, DryRun: dryRun,
	})
}

func admit(ctx context.Context, chain *admission.Chain, req *admission.Request) error {
	if err := chain.Mutate(ctx, req); err != nil {
		return err
	}
	return chain.Validate(ctx, req)
}

// Amend changes an object as the effect of an admitted request for one of its subresources, such as
// a Binding: without admission, without validation, and without a record of owners unless change is
// Recorded. change may modify its argument; if the object changes meanwhile, Amend calls it again.
// A dry run does everything except write. Amend returns what was written.
func (r *Resource) Amend(ctx context.Context, namespace, name string, change Change, dryRun bool) (scheme.Object, error) {
	next := func(current scheme.Object) (scheme.Object, error) {
		shown, err := r.present(current)
		if err != nil {
			return nil, err
		}
		obj, err := change(shown)
		if err != nil {
			return nil, err
		}
		return r.storable(obj)
	}
	if dryRun {
		current, err := r.store.Get(ctx, r.stored, namespace, name)
		if err != nil {
			return nil, r.rename(err)
		}
		obj, err := next(current)
		if err != nil {
			return nil, err
		}
		return r.present(obj)
	}
	updated, err := r.store.Update(ctx, r.stored, namespace, name, next)
	if err != nil {
		return nil, r.rename(err)
	}
	return r.present(updated)
}

// Recorded wraps a change that the apiserver itself makes to an object's status, such as a quota's
// usage: the apiserver becomes the owner of what it changes.
func (r *Resource) Recorded(change Change) Change {
	return func(current scheme.Object) (scheme.Object, error) {
		live, err := deepCopy(current)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		obj, err := change(current)
		if err != nil {
			return nil, err
		}
		r.owners.Update(r.kind, "status", live, obj, ownWriter)
		return obj, nil
	}
}

// Modified returns the conflict of a write to an object that keeps changing.
func (r *Resource) Modified(name string) error {
	return apierrors.NewConflict(r.kind.GroupResource(), name, errModified)
}

// PreconditionFailed returns an error, in Kubernetes' words, for an object that is not the one the
// client meant.
func PreconditionFailed(what string, wanted, is any) error {
	return fmt.Errorf("%s: %s in precondition: %v, %s in object meta: %v", "Precondition failed", what, wanted, what, is)
}
