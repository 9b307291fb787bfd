package scheme

import (
	"bytes"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestCustomObjectsAreStoredAsTheLibraryEncodes: what etcd holds is what Kubernetes writes.
func TestCustomObjectsAreStoredAsTheLibraryEncodes(t *testing.T) {
	kind := &Kind{Custom: true}
	kind.Group, kind.Version, kind.Kind = "example.com", "v1", "Gadget"
	kind.Storage = kind.GroupVersionKind
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": map[string]any{"name": "a"}, "spec": map[string]any{"size": int64(1), "text": "<b>"},
	}}
	var want bytes.Buffer
	if err := unstructured.UnstructuredJSONScheme.Encode(u, &want); err != nil {
		t.Fatal(err)
	}
	got, err := New().EncodeStorage(kind, u)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want.String() {
		t.Errorf("got %q, want %q", got, want.String())
	}
}
