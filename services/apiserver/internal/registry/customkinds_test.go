package registry_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/garboard/garboard/services/apiserver/internal/registry"
	"github.com/garboard/garboard/services/apiserver/internal/registry/registrytest"
)

// TestApplyDuringAChangeOfTheSchema has requests that began before a change of a kind's schema: what such a
// request merges must be what it checks. Otherwise a field that only the new schema has is written unchecked.
func TestApplyDuringAChangeOfTheSchema(t *testing.T) {
	w := newWorld(t)
	const before = "old: {type: string}"
	serve := func(properties string) *registry.Resource {
		return w.Resource(registrytest.Serve(t, w.Catalog, registrytest.Eggs(properties)))
	}
	first := serve(before)
	second := serve(before + ", new: {type: string, enum: [right]}")
	const undeclared = ".spec.new: field not declared in schema"
	for _, c := range []struct {
		name     string
		resource *registry.Resource
		spec     map[string]any
		err      string
	}{
		{"a", first, map[string]any{"new": "wrong"}, "failed to create typed patch object (/a; example.com/v1, Kind=Egg): " + undeclared},
		{"b", second, map[string]any{"new": "wrong"}, `spec.new: Unsupported value: "wrong"`},
		{"c", first, map[string]any{"new": "right"}, undeclared},
		{"d", first, map[string]any{"old": "x"}, ""},
		{"e", second, map[string]any{"old": "x", "new": "right"}, ""},
	} {
		wanted := &unstructured.Unstructured{Object: map[string]any{"spec": c.spec}}
		wanted.SetGroupVersionKind(first.Kind().GroupVersionKind)
		wanted.SetName(c.name)
		_, err := c.resource.Apply(t.Context(), "default", c.name, wanted, nil, registry.UpdateOptions{FieldManager: "me"})
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: got the error %v, want %q", c.name, err, c.err)
		}
	}
}
