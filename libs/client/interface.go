package client

import (
	"context"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/garboard/garboard/libs/history"
	"github.com/garboard/garboard/libs/scheme"
)

// Interface carries calls to the API. Programs use it through Of. The writes of a context that
// has a fence (package fence) are made only while that holds.
//
// Implementations may be used from any goroutine. What they return belongs to the caller.
type Interface interface {
	// Table is the set of kinds that the client knows.
	Table() *scheme.Table
	// Do carries one call and decodes the answer into into, which may be nil to throw it away.
	Do(ctx context.Context, call Call, into runtime.Object) error
	// Stream carries one call whose answer is a stream of bytes, such as a pod's log.
	Stream(ctx context.Context, call Call) (io.ReadCloser, error)
	// Watch opens a watch of a kind.
	Watch(ctx context.Context, call Call) (watch.Interface, error)
}

// Call is one request to the API.
type Call struct {
	// Verb is an API verb: get, list, watch, create, update, patch, delete, deletecollection.
	Verb string
	// Kind is the kind called.
	Kind *scheme.Kind
	// Namespace is empty for cluster-wide kinds and for calls over all namespaces.
	Namespace string
	// Name is empty for list, watch, create and deletecollection.
	Name string
	// Subresource is empty for the object itself.
	Subresource string
	// Options are the verb's: metav1.GetOptions and so on, or corev1.PodLogOptions.
	Options runtime.Object
	// Body is the object sent by create and update.
	Body runtime.Object
	// Patch and PatchType are what patch sends.
	Patch     []byte
	PatchType types.PatchType
	// Revision, if set, takes the revision at which a write took effect, or one before it if
	// there was nothing to write; 0 if the server did not say.
	Revision *int64
	// History, if set, takes of which history the answer to a list or a watch is; the zero ID if
	// the server did not say, as others than Garboard's do not.
	History *history.ID
}

// Writes says whether the call is a write: anything but get, list and watch.
func (c Call) Writes() bool { return c.Verb != "get" && c.Verb != "list" && c.Verb != "watch" }

// Of gives the typed client of the kind whose Go type is T. It panics if T is not served.
func Of[T scheme.Object](c Interface) Resource[T] {
	return Resource[T]{client: c, kind: scheme.For[T](c.Table())}
}

// Resource reads and writes the objects of one kind. The namespace of a cluster-wide kind is
// the empty string.
type Resource[T scheme.Object] struct {
	client Interface
	kind   *scheme.Kind
}

// Kind is the row of the table behind the resource.
func (r Resource[T]) Kind() *scheme.Kind { return r.kind }

// Get reads one object.
func (r Resource[T]) Get(ctx context.Context, namespace, name string, opts metav1.GetOptions) (T, error) {
	return r.do(ctx, Call{Verb: "get", Namespace: namespace, Name: name, Options: &opts})
}

// List reads the objects of a namespace, or of all when it is empty, with the
// resourceVersion of the list. Lists with a limit are read to their end.
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

// Watch follows the objects of a namespace, or of all when it is empty.
func (r Resource[T]) Watch(ctx context.Context, namespace string, opts metav1.ListOptions) (watch.Interface, error) {
	opts.Watch = true
	return r.client.Watch(ctx, Call{Verb: "watch", Kind: r.kind, Namespace: namespace, Options: &opts})
}

// Create writes a new object in obj's namespace; with a subresource (a pod's binding) the
// object named by obj must exist.
func (r Resource[T]) Create(ctx context.Context, obj T, opts metav1.CreateOptions) (T, error) {
	return r.do(ctx, Call{Verb: "create", Namespace: obj.GetNamespace(), Options: &opts, Body: obj})
}

// CreateSubresource posts body to a subresource of an object, for example a pod's binding or a
// service account's token. It decodes the answer into into, or drops it when into is nil.
func (r Resource[T]) CreateSubresource(ctx context.Context, namespace, name, subresource string, body, into runtime.Object, opts metav1.CreateOptions) error {
	return r.client.Do(ctx, Call{
		Verb: "create", Kind: r.kind, Namespace: namespace, Name: name, Subresource: subresource,
		Options: &opts, Body: body,
	}, into)
}

// Update replaces an object. With a resourceVersion in obj it fails with a conflict when the
// object has changed since.
func (r Resource[T]) Update(ctx context.Context, obj T, opts metav1.UpdateOptions) (T, error) {
	return r.do(ctx, Call{Verb: "update", Namespace: obj.GetNamespace(), Name: obj.GetName(), Options: &opts, Body: obj})
}

// UpdateSubresource replaces what a subresource covers of an object: "status", "finalize".
func (r Resource[T]) UpdateSubresource(ctx context.Context, obj T, subresource string, opts metav1.UpdateOptions) (T, error) {
	return r.do(ctx, Call{
		Verb: "update", Namespace: obj.GetNamespace(), Name: obj.GetName(), Subresource: subresource,
		Options: &opts, Body: obj,
	})
}

// UpdateStatus replaces the status of an object, and nothing else.
func (r Resource[T]) UpdateStatus(ctx context.Context, obj T, opts metav1.UpdateOptions) (T, error) {
	return r.UpdateSubresource(ctx, obj, "status", opts)
}

// Patch changes an object, or with a subresource what that covers.
func (r Resource[T]) Patch(ctx context.Context, namespace, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresource string) (T, error) {
	return r.do(ctx, Call{
		Verb: "patch", Namespace: namespace, Name: name, Subresource: subresource, Options: &opts,
		Patch: data, PatchType: pt,
	})
}

// Delete deletes an object, at once or gracefully as opts and the kind say.
func (r Resource[T]) Delete(ctx context.Context, namespace, name string, opts metav1.DeleteOptions) error {
	return r.client.Do(ctx, Call{Verb: "delete", Kind: r.kind, Namespace: namespace, Name: name, Options: &opts}, nil)
}

// DeleteCollection deletes what list selects in a namespace.
func (r Resource[T]) DeleteCollection(ctx context.Context, namespace string, opts metav1.DeleteOptions, list metav1.ListOptions) error {
	return r.client.Do(ctx, Call{
		Verb: "deletecollection", Kind: r.kind, Namespace: namespace, Options: &list, Body: &opts,
	}, nil)
}

// Stream reads a subresource that answers with bytes: a pod's log.
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
