package custom

import (
	"fmt"
	"maps"
	"reflect"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// storedMetadata is what etcd holds of a usual object.
const storedMetadata = `{
"annotations": {"a": "b", "empty": ""}, "creationTimestamp": "2026-11-23T10:00:00Z", "finalizers": ["example.com/f"], "generation": 2,
"labels": {"app": "x"}, "name": "a", "namespace": "b", "uid": "3d1c2b5e-0000-4000-8000-000000000001", "resourceVersion": "12",
"deletionTimestamp": "2026-11-23T10:00:01Z",
"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": true, "blockOwnerDeletion": false}],
"managedFields": [{
  "apiVersion": "example.com/v1", "fieldsType": "FieldsV1", "manager": "m", "operation": "Update", "subresource": "status",
  "time": "2026-11-23T10:00:00Z", "fieldsV1": {"f:spec": {".": {}, "f:a": {}, "k:{\"name\":\"x\"}": {".": {}}}}
}]}`

func metadataFrom(t testing.TB, text string) map[string]any {
	t.Helper()
	var found map[string]any
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		t.Fatal(err)
	}
	return found
}

// unchanged reports whether metadata stays the same when it is decoded as ObjectMeta and encoded again.
func unchanged(metadata any) bool {
	object := map[string]any{"metadata": metadata}
	meta, found, unknown, err := objectmeta.GetObjectMetaWithOptions(object, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil || !found || len(unknown) > 0 {
		return false
	}
	again := map[string]any{}
	return objectmeta.SetObjectMeta(again, meta) == nil && reflect.DeepEqual(object, again)
}

func TestPlainMetadata(t *testing.T) {
	whole := metadataFrom(t, storedMetadata)
	if !plainMetadata(map[string]any{"metadata": whole}) || !unchanged(whole) {
		t.Fatal("usual metadata is not plain")
	}
	changed := 0
	for name := range whole {
		for _, value := range []string{
			`null`, `""`, `"x"`, `0`, `7`, `-1`, `1.5`, `true`, `{}`, `[]`, `{"a": 1}`, `{"a": null}`, `{"a": "b"}`, `["a"]`, `[1]`, `[{}]`, `[null]`,
			`"2026-11-23T10:00:00.5Z"`, `"2026-11-23T12:00:00+02:00"`, `"0001-01-01T00:00:00Z"`, `"2026-11-23T10:00:60Z"`, `"2026-02-30T10:00:00Z"`,
			`[{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": "yes"}]`, `[{"apiVersion": "v1", "kind": "Pod", "name": "p"}]`,
			`[{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "other": true}]`, `[{"apiVersion": "", "kind": "", "name": "", "uid": ""}]`,
			`[{"manager": ""}]`, `[{"manager": "m", "time": null}]`, `[{"fieldsV1": {"f:a": 1}}]`, `[{"fieldsV1": {}}]`, `[{"fieldsV1": null}]`, `[{"x": "y"}]`,
		} {
			one := maps.Clone(whole)
			one[name] = metadataFrom(t, `{"v": `+value+`}`)["v"]
			same := unchanged(one)
			if plain := plainMetadata(map[string]any{"metadata": one}); plain && !same {
				t.Errorf("%s: %s is plain, although decoding changes it", name, value)
			}
			if !same {
				changed++
			}
		}
	}
	if changed < 100 {
		t.Errorf("decoding changed only %d of the metadata", changed)
	}
	for _, metadata := range []any{nil, "x", map[string]any{}, map[string]any{"name": "a", "generation": int64(1)}} {
		if plainMetadata(map[string]any{"metadata": metadata}) {
			t.Errorf("%v is plain", metadata)
		}
	}
	whole["unknown"] = "x"
	if plainMetadata(map[string]any{"metadata": whole}) {
		t.Error("metadata with an unknown field is plain")
	}
}

// TestPlainMetadataIsValidatedAlike: an update of plain metadata has the errors that it has when the metadata is
// decoded.
func TestPlainMetadataIsValidatedAlike(t *testing.T) {
	of := func(change string) *unstructured.Unstructured {
		metadata := metadataFrom(t, storedMetadata)
		for name, value := range metadataFrom(t, change) {
			if metadata[name] = value; value == nil {
				delete(metadata, name)
			}
		}
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "a/v1", "kind": "A", "metadata": metadata}}
	}
	found := 0
	for _, change := range []string{
		`{}`, `{"name": "other"}`, `{"namespace": "other"}`, `{"uid": "other"}`, `{"resourceVersion": null}`, `{"generation": 1}`, `{"labels": {"a b": "c"}}`,
		`{"labels": {"a": "b c"}}`, `{"annotations": {"a b": "c"}}`, `{"finalizers": ["example.com/f", "example.com/new"]}`, `{"finalizers": null}`,
		`{"creationTimestamp": "2026-11-23T10:00:05Z"}`, `{"deletionTimestamp": "2026-11-23T10:00:05Z"}`, `{"deletionTimestamp": null}`,
		`{"ownerReferences": [{"apiVersion": "v1", "kind": "", "name": "p", "uid": "u"}]}`,
		`{"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": true}, {"apiVersion": "v1", "kind": "Pod", "name": "q", "uid": "v", "controller": true}]}`,
		`{"managedFields": [{"manager": "m", "operation": "Steal", "fieldsType": "FieldsV1"}]}`, `{"managedFields": [{"manager": "m", "operation": "Apply", "fieldsType": "V2"}]}`,
	} {
		for _, before := range []string{`{}`, `{"deletionTimestamp": null}`, `{"labels": {"x": "y"}}`} {
			u, old := of(change), of(before)
			meta, errs := metadataOf(u)
			oldMeta, oldErrs := metadataOf(old)
			if len(errs)+len(oldErrs) > 0 {
				t.Fatal(errs, oldErrs)
			}
			if present := u.GetResourceVersion() != ""; present && !plainMetadata(u.Object) {
				t.Errorf("%s is not plain", change)
			}
			want := apivalidation.ValidateObjectMetaUpdate(meta, oldMeta, field.NewPath("metadata")).ToAggregate()
			got := validateMetadataUpdate(u, old).ToAggregate()
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s in place of %s:\ngot  %v\nwant %v", change, before, got, want)
			}
			if want != nil {
				found++
			}
		}
	}
	if found < 30 {
		t.Errorf("only %d of the updates have errors", found)
	}
}

// FuzzPlainMetadata compares with decoding and encoding.
func FuzzPlainMetadata(f *testing.F) {
	f.Add([]byte(storedMetadata))
	f.Fuzz(func(t *testing.T, data []byte) {
		var metadata map[string]any
		if json.Unmarshal(data, &metadata) != nil {
			return
		}
		if plainMetadata(map[string]any{"metadata": metadata}) && !unchanged(metadata) {
			t.Fatalf("%s is plain, although decoding changes it", data)
		}
	})
}

// BenchmarkRestoredMetadata measures what etcd's metadata costs at each read: usual one, and one that must
// be decoded, since it has an empty field.
func BenchmarkRestoredMetadata(b *testing.B) {
	r, err := rulesOf(nil, true)
	if err != nil {
		b.Fatal(err)
	}
	for _, bc := range []struct{ name, finalizers string }{{"usual", `["example.com/f"]`}, {"decoded", `[]`}} {
		b.Run(bc.name, func(b *testing.B) {
			metadata := metadataFrom(b, storedMetadata)
			metadata["finalizers"] = metadataFrom(b, `{"v": `+bc.finalizers+`}`)["v"]
			b.ReportAllocs()
			for b.Loop() {
				u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "a/v1", "kind": "A", "metadata": metadata}}
				if _, err := r.Prune(u, true, kinds.Pruning{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
