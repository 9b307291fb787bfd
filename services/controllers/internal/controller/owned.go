package controller

import (
	"context"
	"fmt"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/controllerref"
)

// byController is the index by the controlling owner's UID. All controllers share it.
const byController = "controller"

// Owned are objects that the objects of a controller own. A change of one asks for a reconcile of its
// owner, and of those that could adopt it.
type Owned[T, O scheme.Object] struct {
	informer.SharedInformer[T]
	// Client writes them.
	Client client.Resource[T]
	// Selects, unless nil, returns which objects an owner adopts; an error if its selector is invalid.
	// Without it owners adopt nothing.
	Selects func(owner O) (labels.Selector, error)
	// Finalizers are those that adopted objects receive, and lose when they are released.
	Finalizers []string
	// Delay is after what time a change asks for a reconcile, so that one follows several.
	Delay time.Duration
	// Member, unless nil, reports whether an object that an owner selects is one that it takes.
	Member func(owner O, obj T) bool
	// Quiet means that an object which an owner controls asks for no reconcile of it, as ControllerRevisions of
	// DaemonSets and StatefulSets in Kubernetes.
	Quiet bool
	// Also, unless nil, is called for each change besides.
	Also func(q Queue, old, now T)

	owners *Objects[O]
}

// OwnedBy returns the objects of kind T that owners own, and requests their informer.
func OwnedBy[T, O scheme.Object](d Deps, owners *Objects[O]) *Owned[T, O] {
	o := &Owned[T, O]{SharedInformer: informer.For[T](d.Informers), Client: client.Of[T](d.Client), owners: owners}
	d.Roots.know(o.Client.Kind().GroupKind(), func(key string) (metav1.Object, bool) { return o.Indexer().GetByKey(key) })
	return o
}

// Of returns the objects that an owner controls, and, if owners adopt, those of its namespace that nobody
// controls.
func (o *Owned[T, O]) Of(owner O) ([]T, error) {
	if o.Selects == nil {
		return o.Controlled(owner)
	}
	return controllerref.Candidates(o.Indexer(), byController, owner)
}

// Controlled returns the objects that an owner controls.
func (o *Owned[T, O]) Controlled(owner O) ([]T, error) {
	found, err := o.Indexer().ByIndex(byController, string(owner.GetUID()))
	if err != nil {
		return nil, fmt.Errorf("finding what %s/%s controls: %w", owner.GetNamespace(), owner.GetName(), err)
	}
	return found, nil
}

// Claim returns those of objs that an owner controls, after adopting and releasing as needed.
func (o *Owned[T, O]) Claim(ctx context.Context, owner O, objs []T) ([]T, error) {
	selector, err := o.Selects(owner)
	if err != nil {
		return nil, err
	}
	claim := controllerref.Claim[T, O]{
		Objects: o.Client, Owners: o.owners.Client, Owner: owner, Selector: selector, Finalizers: o.Finalizers,
	}
	if o.Member != nil {
		claim.Member = func(obj T) bool { return o.Member(owner, obj) }
	}
	return claim.Of(ctx, objs)
}

// Owner returns the object that controls obj; false if there is none, or if another has taken its name.
func (o *Owned[T, O]) Owner(obj T) (owner O, found bool) {
	ref, kind := metav1.GetControllerOfNoCopy(obj), o.owners.Client.Kind()
	if ref == nil || ref.Kind != kind.Kind {
		return owner, false
	}
	namespace := obj.GetNamespace()
	if !kind.Namespaced {
		namespace = ""
	}
	owner, found = o.owners.Indexer().GetByKey(informer.KeyOf(namespace, ref.Name))
	if !found || owner.GetUID() != ref.UID {
		var none O
		return none, false
	}
	return owner, true
}

func (o *Owned[T, O]) begin(h *handlers, q Queue) error {
	if err := shareIndex(o.SharedInformer, byController, controllerref.Index[T]()); err != nil {
		return err
	}
	return handle(h, o.SharedInformer, q, func(q Queue, old, now T, _ informer.DeletedObject[T]) {
		if isNil(old) && isNil(now) {
			return
		}
		o.changed(q, old, now)
		if o.Also != nil {
			o.Also(q, old, now)
		}
	})
}

// changed asks for the reconciles of all that a change concerns.
func (o *Owned[T, O]) changed(q Queue, old, now T) {
	var before, after *metav1.OwnerReference
	if !isNil(old) {
		before = metav1.GetControllerOfNoCopy(old)
	}
	if isNil(now) {
		if !o.Quiet {
			o.add(q, old)
		}
		return
	}
	after = metav1.GetControllerOfNoCopy(now)
	moved := isNil(old) || !sameReference(before, after)
	if moved && before != nil {
		o.add(q, old)
	}
	switch {
	case after != nil:
		if !o.Quiet {
			o.add(q, now)
		}
	case o.Selects != nil && (moved || !maps.Equal(old.GetLabels(), now.GetLabels())):
		o.adopters(q, now)
	}
}

// sameReference reports whether two references, which may be nil, say the same. It is asked for each change of each pod.
func sameReference(a, b *metav1.OwnerReference) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.UID == b.UID && a.Name == b.Name && a.Kind == b.Kind && a.APIVersion == b.APIVersion &&
		ptr.Equal(a.Controller, b.Controller) && ptr.Equal(a.BlockOwnerDeletion, b.BlockOwnerDeletion)
}

// add asks for a reconcile of an object's owner.
func (o *Owned[T, O]) add(q Queue, obj T) {
	if owner, found := o.Owner(obj); found {
		q.AddAfter(owner, o.Delay)
	}
}

// adopters asks for a reconcile of every owner that could adopt an object.
func (o *Owned[T, O]) adopters(q Queue, obj T) {
	if len(obj.GetLabels()) == 0 || obj.GetDeletionTimestamp() != nil {
		return
	}
	for _, owner := range inNamespace(o.owners.Indexer(), obj.GetNamespace()) {
		selector, err := o.Selects(owner)
		if err != nil || selector.Empty() {
			continue // An empty selector must not claim everything.
		}
		if selector.Matches(labels.Set(obj.GetLabels())) {
			q.AddAfter(owner, o.Delay)
		}
	}
}

// shareIndex adds an index to an informer that lacks it.
func shareIndex[T scheme.Object](of informer.SharedInformer[T], name string, values informer.IndexFunc[T]) error {
	if _, ok := of.Indexer().GetIndexers()[name]; ok {
		return nil
	}
	err := of.AddIndexers(informer.Indexers[T]{name: values})
	if err != nil {
		if _, ok := of.Indexer().GetIndexers()[name]; ok {
			return nil // Another controller was faster.
		}
		return fmt.Errorf("adding the index %s: %w", name, err)
	}
	return nil
}
