package controller

import (
	"log/slog"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/informer"
)

// Key names an object that is to be reconciled.
type Key struct {
	// Namespace is empty for objects without one.
	Namespace, Name string
	// Root is the UID of the topmost controlling owner that is known, or else the object's own; empty
	// if the object is unknown. It stays the same while the object lives, for one term.
	Root types.UID
}

// String returns namespace/name, or name.
func (k Key) String() string { return informer.KeyOf(k.Namespace, k.Name) }

// object returns the key without its root. An object can have two keys for a while: one from before it
// existed, or of another that had its name and is gone, and its own.
func (k Key) object() Key { return Key{Namespace: k.Namespace, Name: k.Name} }

// LogValue returns the key as logs show it.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// maxOwners bounds the way from an object up to its root: owners may form a circle.
const maxOwners = 10

// Roots finds the roots of objects in the caches of the controllers that share it. The zero value knows
// no objects.
type Roots struct {
	mu   sync.RWMutex
	find map[schema.GroupKind]func(key string) (metav1.Object, bool)
}

// know adds a cache.
func (r *Roots) know(kind schema.GroupKind, find func(key string) (metav1.Object, bool)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.find == nil {
		r.find = map[schema.GroupKind]func(string) (metav1.Object, bool){}
	}
	r.find[kind] = find
}

// of returns the root of an object.
func (r *Roots) of(obj metav1.Object) types.UID {
	root, namespace := obj.GetUID(), obj.GetNamespace()
	for range maxOwners {
		ref := metav1.GetControllerOfNoCopy(obj)
		if ref == nil {
			break
		}
		root = ref.UID
		owner, found := r.owner(ref, namespace)
		if !found {
			break
		}
		obj = owner
	}
	return root
}

// owner returns the object to which a reference within a namespace leads.
func (r *Roots) owner(ref *metav1.OwnerReference, namespace string) (metav1.Object, bool) {
	group, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil, false
	}
	r.mu.RLock()
	find := r.find[schema.GroupKind{Group: group.Group, Kind: ref.Kind}]
	r.mu.RUnlock()
	if find == nil {
		return nil, false
	}
	for _, key := range []string{informer.KeyOf(namespace, ref.Name), ref.Name} {
		if owner, found := find(key); found && owner.GetUID() == ref.UID {
			return owner, true
		}
	}
	return nil, false
}
