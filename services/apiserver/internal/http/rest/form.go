package rest

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
)

// The kinds of meta.k8s.io into which objects can be converted.
const (
	asTable       = "Table"
	asPartial     = "PartialObjectMetadata"
	asPartialList = "PartialObjectMetadataList"
)

// forms returns the kinds that a response can be converted into: a table, or the metadata alone,
// which is a kind of its own for lists. Older clients ask for v1beta1, which differs only in its
// name.
func forms(metadata string) []schema.GroupVersionKind {
	var list []schema.GroupVersionKind
	for _, version := range []schema.GroupVersion{metav1.SchemeGroupVersion, metav1beta1.SchemeGroupVersion} {
		list = append(list, version.WithKind(asTable), version.WithKind(metadata))
	}
	return list
}

// tableOf returns a table of objects in the version that the client wants.
func tableOf(
	resource *registry.Resource, items []feed.Item, listMeta *metav1.ListMeta, opts *metav1.TableOptions, as schema.GroupVersionKind,
) *metav1.Table {
	objs := make([]scheme.Object, len(items))
	for i, item := range items {
		objs[i] = item.Object
	}
	table := resource.Table(objs, listMeta, columns.Options{NoHeaders: opts.NoHeaders, Include: func(i int) runtime.RawExtension {
		return included(items[i], opts.IncludeObject, as)
	}})
	table.SetGroupVersionKind(as)
	return table
}

// included returns what of an object is sent with its row: its metadata unless the client asked otherwise.
func included(item feed.Item, policy metav1.IncludeObjectPolicy, as schema.GroupVersionKind) runtime.RawExtension {
	switch policy {
	case metav1.IncludeNone:
		return runtime.RawExtension{}
	case metav1.IncludeObject:
		return runtime.RawExtension{Object: item.Object}
	}
	kind := partialKind(as)
	if data, ok := response.PartialJSON(nil, item.Object, item.Plain, kind); ok {
		return runtime.RawExtension{Raw: data}
	}
	return runtime.RawExtension{Object: response.Partial(item.Object, kind)}
}

// partialKind returns the kind of an object's metadata alone, of the version of a kind that the client wants.
func partialKind(as schema.GroupVersionKind) schema.GroupVersionKind {
	return as.GroupVersion().WithKind(asPartial)
}
