package scheme

import (
	"cmp"
	"path"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Object is an API object with metadata, which every served kind is.
type Object interface {
	runtime.Object
	metav1.Object
}

// Unscoped is the scope of an object that belongs to no node yet, and of every object of a kind
// without scopes.
const Unscoped = "~"

// Kind is one served kind.
type Kind struct {
	// GroupVersionKind names the kind.
	schema.GroupVersionKind
	// List is the name of the kind of lists; that of the kind with "List" appended if empty.
	List string
	// Resource is the plural, lower-case name of the kind in URLs.
	Resource string
	// Singular is the name that kubectl accepts beside Resource.
	Singular string
	// ShortNames are kubectl's abbreviations.
	ShortNames []string
	// Categories are the kubectl groups that include the kind, for example "all".
	Categories []string
	// Namespaced reports whether objects live in a namespace.
	Namespaced bool
	// DeletedOneByOne kinds lack the verb deletecollection, since deleting an object deletes more than
	// itself.
	DeletedOneByOne bool
	// Subresources are what is served below an object, in the order of discovery: sorted by name for
	// kinds with a Go type.
	Subresources []Subresource
	// Custom kinds have no Go type: their objects are *unstructured.Unstructured, and etcd and watch
	// messages hold them as JSON. A kind that is made outside this package must be Custom.
	Custom bool
	// Virtual kinds are not stored: creating one (a review) returns its answer. They have no list,
	// unless they are Observed.
	Virtual bool
	// Observed kinds are virtual and read-only: each read computes them.
	Observed bool
	// StoragePrefix is the key below the etcd prefix, without leading or trailing slashes. It is
	// that of Kubernetes, including exceptions ("minions", "services/specs").
	StoragePrefix string
	// Storage is the kind that etcd stores. It differs from GroupVersionKind only for kinds that
	// show another kind's objects in a newer form (events.k8s.io).
	Storage schema.GroupVersionKind
	// Deprecated is the warning for every client that uses the kind; empty for most.
	Deprecated string
	// NotActedOn lists the parts of the kind that are accepted without effect; empty for most.
	NotActedOn []NotActedOn
	// Unserved kinds are stored, and no client can ask for them by that version.
	Unserved bool
	// StoredVersions are the versions, besides that of Storage, in which etcd may hold objects of a
	// custom kind. Whoever reads one converts it.
	StoredVersions []string
	// Confidential objects never appear in watch messages or in the log.
	Confidential bool
	// Scope returns the node to which an object belongs, or Unscoped; nil for kinds without scopes.
	Scope func(Object) string

	newObject func() Object
	newList   func() runtime.Object
	// older is the version as which Kubernetes stores the kind, if not that of Storage.
	older string
	// etcd is the form in which Kubernetes stores the kind; nil for that of most kinds.
	etcd *form
}

// Encoded returns the group, version and kind of the form in which etcd holds the kind.
func (k *Kind) Encoded() schema.GroupVersionKind {
	if k.etcd != nil {
		return k.etcd.version.WithKind(k.Storage.Kind)
	}
	return k.Storage
}

// New returns an empty object of the kind with its group, version and kind set.
func (k *Kind) New() Object {
	if k.Custom {
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(k.GroupVersionKind)
		return obj
	}
	obj := k.newObject()
	obj.GetObjectKind().SetGroupVersionKind(k.GroupVersionKind)
	return obj
}

// Holds reports whether obj is of the kind: of its Go type, and of its group, version and kind if
// obj has those set. Two kinds may share a Go type. An object of a custom kind must have them set.
func (k *Kind) Holds(obj Object) bool {
	if obj == nil {
		return false
	}
	gvk := obj.GetObjectKind().GroupVersionKind()
	if _, loose := obj.(*unstructured.Unstructured); loose || k.Custom {
		return loose && k.Custom && gvk == k.GroupVersionKind
	}
	return reflect.TypeOf(obj) == reflect.TypeOf(k.newObject()) && (gvk.Empty() || gvk == k.GroupVersionKind)
}

// NewList returns an empty list of the kind with its group, version and kind set; nil for virtual
// kinds without a list.
func (k *Kind) NewList() runtime.Object {
	if k.Virtual && !k.Observed {
		return nil
	}
	if k.Custom {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(k.ListKind())
		return list
	}
	list := k.newList()
	list.GetObjectKind().SetGroupVersionKind(k.ListKind())
	return list
}

// ListKind returns the group, version and kind of the kind's list.
func (k *Kind) ListKind() schema.GroupVersionKind {
	return k.GroupVersion().WithKind(cmp.Or(k.List, k.Kind+"List"))
}

// GroupResource returns the resource without a version, as API errors name it.
func (k *Kind) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.Resource}
}

// GroupVersionResource returns the resource with its version.
func (k *Kind) GroupVersionResource() schema.GroupVersionResource {
	return k.GroupVersion().WithResource(k.Resource)
}

// Stored reports whether etcd stores objects as this kind; the watch fabric carries only such
// kinds. Virtual kinds are not stored.
func (k *Kind) Stored() bool { return !k.Virtual && k.Storage == k.GroupVersionKind }

// ScopeOf returns the scope of obj: its node, or Unscoped.
func (k *Kind) ScopeOf(obj Object) string {
	if k.Scope == nil {
		return Unscoped
	}
	return k.Scope(obj)
}

// Key returns the etcd key of an object, below the etcd prefix and without a leading slash.
func (k *Kind) Key(namespace, name string) string {
	if k.Namespaced {
		return path.Join(k.StoragePrefix, namespace, name)
	}
	return path.Join(k.StoragePrefix, name)
}
