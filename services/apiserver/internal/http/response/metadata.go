package response

import (
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
)

// Partial returns the metadata of an object as an object of the kind as, which is a PartialObjectMetadata. It shares
// obj's maps.
func Partial(obj scheme.Object, as schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	partial := meta.AsPartialObjectMetadata(obj)
	partial.SetGroupVersionKind(as)
	return partial
}

// headSize is about how many bytes PartialJSON adds to the metadata.
const headSize = 128

// PartialJSON appends to buffer the JSON of Partial for an object of a custom kind, cut from its JSON without the
// resourceVersion. It returns false if that is not at hand, or not in the form in which objects are stored.
func PartialJSON(buffer []byte, obj scheme.Object, plain []byte, as schema.GroupVersionKind) ([]byte, bool) {
	metadata, place, ok := metadataOf(obj, plain)
	if !ok {
		return buffer, false
	}
	buffer = slices.Grow(buffer, len(metadata)+headSize)
	buffer = append(append(buffer, `{"kind":"`...), as.Kind...)
	buffer = append(append(append(buffer, `","apiVersion":"`...), as.Group...), '/')
	buffer = append(append(buffer, as.Version...), `","metadata":`...)
	buffer = place.appendVersioned(buffer, metadata, obj.GetResourceVersion())
	return append(buffer, '}'), true
}

// partialOf is Partial. It decodes the metadata alone if the JSON of an object of a custom kind is at hand.
func partialOf(obj scheme.Object, plain []byte, as schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	metadata, _, ok := metadataOf(obj, plain)
	if !ok {
		return Partial(obj, as)
	}
	partial := &metav1.PartialObjectMetadata{}
	if json.Unmarshal(metadata, &partial.ObjectMeta) != nil {
		return Partial(obj, as)
	}
	partial.ResourceVersion = obj.GetResourceVersion()
	partial.SetGroupVersionKind(as)
	return partial
}

// metadataOf returns the part of an object's JSON that is its metadata, and where in it the resourceVersion goes. It
// returns false if the object is not of a custom kind, if its JSON is not at hand or has another form than
// the serializers give it, or if the metadata has a field that ObjectMeta lacks.
func metadataOf(obj scheme.Object, plain []byte) ([]byte, insertion, bool) {
	if _, loose := obj.(*unstructured.Unstructured); !loose || plain == nil {
		return nil, insertion{}, false
	}
	place, ok := versionIn(plain)
	if !ok {
		return nil, insertion{}, false
	}
	s := scanner{data: plain, at: place.from}
	for inner := s.open(); inner; inner = s.next() {
		if name, ok := s.name(); !ok || !ofObjectMeta(name) || !s.skip() {
			return nil, insertion{}, false
		}
	}
	if !s.take('}') {
		return nil, insertion{}, false
	}
	metadata := plain[place.from:s.at]
	place.at, place.from = place.at-place.from, 0
	return metadata, place, true
}

// ofObjectMeta reports whether a stored object's metadata can have a field, as ObjectMeta has it.
func ofObjectMeta(name []byte) bool {
	switch string(name) {
	case "annotations", "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers", "generateName",
		"generation", "labels", "managedFields", "name", "namespace", "ownerReferences", "uid":
		return true
	}
	return false
}
