package client

import (
	"context"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
)

// Interface executes calls to the API. Programs use it through Of. If the context has a fence
// (package fence), its writes take effect only while that fence holds.
//
// Implementations are safe for concurrent use. Their results belong to the caller.
type Interface interface {
	// Table returns the kinds that the client knows.
	Table() *scheme.Table
	// Do executes one call and decodes the response into into, which may be nil to discard it.
	Do(ctx context.Context, call Call, into runtime.Object) error
	// Stream executes one call whose response is a stream of bytes, such as a pod's log.
	Stream(ctx context.Context, call Call) (io.ReadCloser, error)
	// Watch opens a watch of a kind.
	Watch(ctx context.Context, call Call) (watch.Interface, error)
	// Document returns the JSON document at a path that is no resource, such as one of OpenAPI.
	Document(ctx context.Context, path string) ([]byte, error)
}

// Call is one request to the API.
type Call struct {
	// Verb is an API verb: get, list, watch, create, update, patch, delete, deletecollection.
	Verb string
	// Kind is the kind that the call is about.
	Kind *scheme.Kind
	// Namespace is empty for cluster-scoped kinds and for calls over all namespaces.
	Namespace string
	// Name is empty for list, watch, create and deletecollection.
	Name string
	// Subresource is empty for the object itself.
	Subresource string
	// Options are those of the verb: metav1.GetOptions and so on, or corev1.PodLogOptions.
	Options runtime.Object
	// Body is the object that create or update sends.
	Body runtime.Object
	// Patch and PatchType are what patch sends.
	Patch     []byte
	PatchType types.PatchType
	// Revision, if set, receives the revision at which a write took effect, or an earlier one if
	// there was nothing to write; 0 if the server did not report it.
	Revision *int64
	// History, if set, receives the history of the response to a list or a watch; the zero ID if
	// the server did not report it, as servers other than Garboard's don't.
	History *fabric.History
}

// Writes reports whether the call is a write: anything but get, list and watch.
func (c Call) Writes() bool { return c.Verb != "get" && c.Verb != "list" && c.Verb != "watch" }

// Of returns the typed client of the kind whose Go type is T. It panics if T is not served.
func Of[T scheme.Object](c Interface) Resource[T] { return OfKind[T](c, scheme.For[T](c.Table())) }

// OfKind returns the client of a kind whose objects are Ts. Those of a custom kind are
// *unstructured.Unstructured.
func OfKind[T scheme.Object](c Interface, kind *scheme.Kind) Resource[T] {
	return Resource[T]{client: c, kind: kind}
}

// Resource reads and writes the objects of one kind. The namespace of a cluster-scoped kind is the
// empty string.
type Resource[T scheme.Object] struct {
	client Interface
	kind   *scheme.Kind
}

// Kind returns the row of the table for the resource.
func (r Resource[T]) Kind() *scheme.Kind { return r.kind }

// Get returns one object.
func (r Resource[T]) Get(ctx context.Context, namespace, name string, opts metav1.GetOptions) (T, error) {
	return r.do(ctx, Call{Verb: "get", Namespace: namespace, Name: name, Options: &opts})
}

// List returns the objects of a namespace, or of all namespaces if namespace is empty, and the
// resourceVersion of the list. With a limit it reads all pages.
func (r Resource[T]) List(ctx context.Context, namespace string, opts metav1.ListOptions) ([]T, string, error) {
	var items []T
	for {
		list := r.kind.NewList()
		call := Call{Verb: "list", Kind: r.kind, Namespace: namespace, Options: &opts}
		if err := r.client.Do(ctx, call, list); err != nil {
			return nil, "", err
		}
		page, err := listItems[T](list)
		if err != nil {
			return nil, "", err
		}
		for _, item := range page {
			item.GetObjectKind().SetGroupVersionKind(r.kind.GroupVersionKind)
		}
		items = append(items, page...)
		meta, err := listMeta(list)
		if err != nil {
			return nil, "", err
		}
		if meta.GetContinue() == "" {
			return items, meta.GetResourceVersion(), nil
		}
		opts.Continue, opts.ResourceVersion, opts.ResourceVersionMatch = meta.GetContinue(), "", ""
	}
}

// Watch watches the objects of a namespace, or of all namespaces if namespace is empty.
func (r Resource[T]) Watch(ctx context.Context, namespace string, opts metav1.ListOptions) (watch.Interface, error) {
	opts.Watch = true
	return r.client.Watch(ctx, Call{Verb: "watch", Kind: r.kind, Namespace: namespace, Options: &opts})
}

// Create creates an object in obj's namespace.
func (r Resource[T]) Create(ctx context.Context, obj T, opts metav1.CreateOptions) (T, error) {
	return r.do(ctx, Call{Verb: "create", Namespace: obj.GetNamespace(), Options: &opts, Body: obj})
}

// CreateSubresource posts body to a subresource of an object, for example a pod's binding or a
// service account's token. It decodes the response into into, or discards it if into is nil.
func (r Resource[T]) CreateSubresource(ctx context.Context, namespace, name, subresource string, body, into runtime.Object,
	opts metav1.CreateOptions) error {
	return r.client.Do(ctx, Call{
		Verb: "create", Kind: r.kind, Namespace: namespace, Name: name, Subresource: subresource,
		Options: &opts, Body: body,
	}, into)
}

// Update replaces an object. If obj has a resourceVersion and the stored object has changed since,
// it fails with a conflict.
func (r Resource[T]) Update(ctx context.Context, obj T, opts metav1.UpdateOptions) (T, error) {
	return r.do(ctx, Call{Verb: "update", Namespace: obj.GetNamespace(), Name: obj.GetName(), Options: &opts, Body: obj})
}

// UpdateSubresource replaces the part of an object that a subresource covers: "status", "finalize".
func (r Resource[T]) UpdateSubresource(ctx context.Context, obj T, subresource string, opts metav1.UpdateOptions) (T, error) {
	return r.do(ctx, Call{
		Verb: "update", Namespace: obj.GetNamespace(), Name: obj.GetName(), Subresource: subresource,
		Options: &opts, Body: obj,
	})
}

// UpdateStatus replaces only the status of an object.
func (r Resource[T]) UpdateStatus(ctx context.Context, obj T, opts metav1.UpdateOptions) (T, error) {
	return r.UpdateSubresource(ctx, obj, "status", opts)
}

// Patch changes an object or, with a subresource, the part that it covers.
func (r Resource[T]) Patch(ctx context.Context, namespace, name string, pt types.PatchType, data []byte,
	opts metav1.PatchOptions, subresource string) (T, error) {
	return r.do(ctx, Call{
		Verb: "patch", Namespace: namespace, Name: name, Subresource: subresource, Options: &opts,
		Patch: data, PatchType: pt,
	})
}

// PatchUnread is Patch of a whole object, for whom its answer says nothing new. It is not decoded.
func (r Resource[T]) PatchUnread(ctx context.Context, namespace, name string, pt types.PatchType, data []byte) error {
	return r.client.Do(ctx, Call{
		Verb: "patch", Kind: r.kind, Namespace: namespace, Name: name, Options: &metav1.PatchOptions{}, Patch: data, PatchType: pt,
	}, nil)
}

// Delete deletes an object, at once or gracefully, depending on opts and the kind.
func (r Resource[T]) Delete(ctx context.Context, namespace, name string, opts metav1.DeleteOptions) error {
	return r.client.Do(ctx, Call{Verb: "delete", Kind: r.kind, Namespace: namespace, Name: name, Options: &opts}, nil)
}

// DeleteCollection deletes the objects in a namespace that list selects.
func (r Resource[T]) DeleteCollection(ctx context.Context, namespace string, opts metav1.DeleteOptions, list metav1.ListOptions) error {
	return r.client.Do(ctx, Call{
		Verb: "deletecollection", Kind: r.kind, Namespace: namespace, Options: &list, Body: &opts,
	}, nil)
}

// Stream reads a subresource whose response is a stream of bytes: a pod's log.
func (r Resource[T]) Stream(ctx context.Context, namespace, name, subresource string, opts runtime.Object) (io.ReadCloser, error) {
	return r.client.Stream(ctx, Call{
		Verb: "get", Kind: r.kind, Namespace: namespace, Name: name, Subresource: subresource, Options: opts,
	})
}

func (r Resource[T]) do(ctx context.Context, call Call) (T, error) {
	var none T
	call.Kind = r.kind
	obj := r.kind.New()
	if err := r.client.Do(ctx, call, obj); err != nil {
		return none, err
	}
	obj.GetObjectKind().SetGroupVersionKind(r.kind.GroupVersionKind)
	return obj.(T), nil
}
