package managedfields

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// The fields of an object's metadata that do not count when two states of it are compared.
const ownersField, versionField = "managedFields", "resourceVersion"

// Record is the record of an object as it was at some moment. The entries of an object without a Go type are
// only decoded if that is needed: it takes longer than the rest of what is done with them.
type Record struct {
	entries []metav1.ManagedFieldsEntry
	loose   any // the field of an object without a Go type
}

// RecordOf returns an object's record. It shares the entries with the object.
func RecordOf(obj scheme.Object) Record {
	if metadata := looseMetadata(obj); metadata != nil {
		return Record{loose: metadata[ownersField]}
	}
	return Record{entries: obj.GetManagedFields()}
}

// Unchanged reports whether an object certainly still has the record.
func (r Record) Unchanged(obj scheme.Object) bool {
	if metadata := looseMetadata(obj); metadata != nil {
		return kinds.EqualValues(r.loose, metadata[ownersField])
	}
	now := obj.GetManagedFields()
	return len(now) == len(r.entries) && (len(now) == 0 || &now[0] == &r.entries[0])
}

// Restore gives an object the record.
func (r Record) Restore(obj scheme.Object) {
	metadata := looseMetadata(obj)
	switch {
	case metadata == nil:
		obj.SetManagedFields(r.entries)
	case r.loose == nil:
		delete(metadata, ownersField)
	default:
		metadata[ownersField] = r.loose
	}
}

// copied returns a record that shares nothing with its object that may be changed.
func (r Record) copied() Record {
	if r.loose != nil {
		r.loose = runtime.DeepCopyJSONValue(r.loose)
	}
	return r
}

// looseMetadata returns the metadata of an object without a Go type; nil of any other.
func looseMetadata(obj scheme.Object) map[string]any {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		metadata, _ := u.Object["metadata"].(map[string]any)
		return metadata
	}
	return nil
}

// metadataOfBoth returns the metadata of two objects without a Go type; false if one of them has one.
func metadataOfBoth(obj, live scheme.Object) (metadata, before map[string]any, ok bool) {
	metadata, before = looseMetadata(obj), looseMetadata(live)
	return metadata, before, metadata != nil && before != nil
}

// readable reports whether a record is absent, or certainly one that can be decoded.
func readable(record any) bool {
	if record == nil {
		return true
	}
	entries, ok := record.([]any)
	for _, entry := range entries {
		fields, isMap := entry.(map[string]any)
		ok = ok && isMap
		for name, value := range fields {
			switch text, isText := value.(string); name {
			case "manager", "operation", "apiVersion", "fieldsType", "subresource":
				ok = ok && isText
			case "time":
				_, err := time.Parse(time.RFC3339, text)
				ok = ok && err == nil
			case "fieldsV1":
				_, isMap := value.(map[string]any)
				ok = ok && isMap
			default:
				ok = false
			}
		}
	}
	return ok && len(entries) > 0
}

// alikeLoose reports whether two records have the same entries apart from their times, and whether the times
// differ. If it returns false, they may still mean the same.
func alikeLoose(record, before any) (alike, moved bool) {
	entries, ok := record.([]any)
	others, isToo := before.([]any)
	if !ok || !isToo || len(entries) != len(others) || !readable(record) || !readable(before) {
		return false, false
	}
	for i := range entries {
		one, ok := entries[i].(map[string]any)
		other, isToo := others[i].(map[string]any)
		if !ok || !isToo || !kinds.EqualFields(one, other, "time") {
			return false, false
		}
		moved = moved || !kinds.EqualValues(one["time"], other["time"])
	}
	return true, moved
}

// sameLoose reports whether two objects without a Go type have the same content, apart from some fields of
// their metadata.
func sameLoose(obj, live scheme.Object, except ...string) bool {
	one, ok := obj.(*unstructured.Unstructured)
	other, isToo := live.(*unstructured.Unstructured)
	if !ok || !isToo {
		return false
	}
	metadata, before, ok := metadataOfBoth(obj, live)
	return ok && kinds.EqualFields(metadata, before, except...) && kinds.EqualFields(one.Object, other.Object, "metadata")
}
