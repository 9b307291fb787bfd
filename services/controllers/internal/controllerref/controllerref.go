// Package controllerref lets a controller own objects. It adopts objects that match its selector
// and have no controller, and releases objects that it controls but no longer selects (Kubernetes,
// pkg/controller.BaseControllerRefManager).
package controllerref

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
)

// Claim is an owner's claim on objects of type T. The owner is of type O.
type Claim[T, O scheme.Object] struct {
	// Objects and Owners are the API clients.
	Objects client.Resource[T]
	Owners  client.Resource[O]
	// Owner is the claiming object as its cache shows it.
	Owner O
	// Selector selects the objects that the owner wants.
	Selector labels.Selector
	// Finalizers are added to objects that are adopted, and removed from those that are released.
	Finalizers []string
	// Member, unless nil, reports whether the owner wants an object that is selected.
	Member func(obj T) bool
}

// Of takes objects in the owner's namespace and returns the ones that the owner controls, after
// adopting and releasing as needed. It leaves objects of other controllers alone. An object that
// cannot be adopted or released is left out, and the error says why.
func (c Claim[T, O]) Of(ctx context.Context, objects []T) ([]T, error) {
	check := &adoption[O]{owners: c.Owners, owner: c.Owner}
	var claimed []T
	var faults []error
	for _, obj := range objects {
		ok, err := c.claim(ctx, check, obj)
		if err != nil {
			faults = append(faults, err)
		}
		if ok {
			claimed = append(claimed, obj)
		}
	}
	return claimed, errors.Join(faults...)
}

func (c Claim[T, O]) claim(ctx context.Context, check *adoption[O], obj T) (bool, error) {
	selected := c.Selector.Matches(labels.Set(obj.GetLabels())) && (c.Member == nil || c.Member(obj))
	if ref := metav1.GetControllerOfNoCopy(obj); ref != nil {
		switch {
		case ref.UID != c.Owner.GetUID():
			return false, nil
		case selected:
			return true, nil
		case c.Owner.GetDeletionTimestamp() != nil:
			return false, nil // The garbage collector needs the reference.
		default:
			return false, c.release(ctx, obj)
		}
	}
	if !selected || c.Owner.GetDeletionTimestamp() != nil || obj.GetDeletionTimestamp() != nil ||
		obj.GetNamespace() != c.Owner.GetNamespace() {
		return false, nil
	}
	if err := check.allowed(ctx); err != nil {
		return false, fmt.Errorf("can't adopt %s %s/%s (%s): %w", c.Objects.Kind().Kind, obj.GetNamespace(), obj.GetName(), obj.GetUID(), err)
	}
	if err := c.adopt(ctx, obj); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil // The object is gone: there is nothing to adopt.
		}
		return false, fmt.Errorf("adopting %s %s/%s: %w", c.Objects.Kind().Kind, obj.GetNamespace(), obj.GetName(), err)
	}
	return true, nil
}

// ownerPatch carries the object's UID, so that it cannot hit another object that has since taken
// the name.
type ownerPatch struct {
	Metadata struct {
		UID             types.UID `json:"uid"`
		OwnerReferences []any     `json:"ownerReferences"`
		Finalizers      []string  `json:"finalizers,omitempty"`
		NotFinalizers   []string  `json:"$deleteFromPrimitiveList/finalizers,omitempty"`
	} `json:"metadata"`
}

func (c Claim[T, O]) adopt(ctx context.Context, obj T) error {
	var patch ownerPatch
	patch.Metadata.Finalizers = c.Finalizers
	return c.patch(ctx, obj, patch, Reference(c.Owner, c.Owners.Kind().GroupVersionKind))
}

func (c Claim[T, O]) release(ctx context.Context, obj T) error {
	var patch ownerPatch
	patch.Metadata.NotFinalizers = c.Finalizers
	err := c.patch(ctx, obj, patch, map[string]any{"$patch": "delete", "uid": c.Owner.GetUID()})
	// The object is gone, or another has taken its name: it is released either way.
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
		return nil
	}
	return fmt.Errorf("releasing %s %s/%s: %w", c.Objects.Kind().Kind, obj.GetNamespace(), obj.GetName(), err)
}

func (c Claim[T, O]) patch(ctx context.Context, obj T, patch ownerPatch, reference any) error {
	patch.Metadata.UID = obj.GetUID()
	patch.Metadata.OwnerReferences = []any{reference}
	data, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encoding a patch of owner references: %w", err)
	}
	_, err = c.Objects.Patch(ctx, obj.GetNamespace(), obj.GetName(), types.StrategicMergePatchType, data, metav1.PatchOptions{}, "")
	return err
}

// Reference returns the controller reference with which owner, of the given kind, marks its
// objects.
func Reference(owner scheme.Object, kind schema.GroupVersionKind) metav1.OwnerReference {
	return *metav1.NewControllerRef(owner, kind)
}

// adoption asks the API at most once whether the owner is still the object in the cache. An owner
// that is deleted, or replaced under its name, must not adopt.
type adoption[O scheme.Object] struct {
	owners client.Resource[O]
	owner  O
	asked  bool
	err    error
}

func (a *adoption[O]) allowed(ctx context.Context) error {
	if !a.asked {
		a.asked, a.err = true, a.ask(ctx)
	}
	return a.err
}

func (a *adoption[O]) ask(ctx context.Context) error {
	kind := a.owners.Kind().Kind
	fresh, err := a.owners.Get(ctx, a.owner.GetNamespace(), a.owner.GetName(), metav1.GetOptions{})
	switch {
	case err != nil:
		return fmt.Errorf("reading the %s that adopts: %w", kind, err)
	case fresh.GetUID() != a.owner.GetUID():
		return fmt.Errorf("original %s %s/%s is gone: got uid %s, wanted %s",
			kind, a.owner.GetNamespace(), a.owner.GetName(), fresh.GetUID(), a.owner.GetUID())
	case fresh.GetDeletionTimestamp() != nil:
		return fmt.Errorf("%s/%s has just been deleted at %s", fresh.GetNamespace(), fresh.GetName(), fresh.GetDeletionTimestamp())
	}
	return nil
}

// Index returns the index function that finds objects by their controller's UID. Objects without a
// controller are indexed under orphansOf(namespace).
func Index[T scheme.Object]() informer.IndexFunc[T] {
	return func(obj T) ([]string, error) {
		if ref := metav1.GetControllerOfNoCopy(obj); ref != nil {
			return []string{string(ref.UID)}, nil
		}
		return []string{orphansOf(obj.GetNamespace())}, nil
	}
}

// orphansOf is the index value of the objects in a namespace that have no controller.
func orphansOf(namespace string) string { return "orphans in " + namespace }

// Candidates returns the objects that an owner controls and the ones that it could adopt.
func Candidates[T scheme.Object](indexer informer.Indexer[T], index string, owner scheme.Object) ([]T, error) {
	owned, err := indexer.ByIndex(index, string(owner.GetUID()))
	if err != nil {
		return nil, fmt.Errorf("finding what %s/%s controls: %w", owner.GetNamespace(), owner.GetName(), err)
	}
	orphans, err := indexer.ByIndex(index, orphansOf(owner.GetNamespace()))
	if err != nil {
		return nil, fmt.Errorf("finding what %s/%s could adopt: %w", owner.GetNamespace(), owner.GetName(), err)
	}
	return append(owned, orphans...), nil
}
