package rest

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
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
func tableOf(resource *registry.Resource, objs []scheme.Object, listMeta *metav1.ListMeta, opts *metav1.TableOptions, as schema.GroupVersionKind) *metav1.Table {
	table := resource.Table(objs, listMeta, opts)
	if version := as.GroupVersion(); version != metav1.SchemeGroupVersion {
		table.SetGroupVersionKind(as)
		for _, row := range table.Rows {
			if metadata, ok := row.Object.Object.(*metav1.PartialObjectMetadata); ok {
				metadata.SetGroupVersionKind(version.WithKind(asPartial))
			}
		}
	}
	return table
}

// partial returns an object's metadata in the version that the client wants.
func partial(obj scheme.Object, as schema.GroupVersionKind) runtime.Object {
	metadata := columns.Partial(obj)
	metadata.SetGroupVersionKind(as.GroupVersion().WithKind(asPartial))
	return metadata
}
