package openapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// known are kinds with their definitions, as a catalog knows them.
type known map[*scheme.Kind]*kinds.Definition

func (k known) of(kind *scheme.Kind) *kinds.Definition { return k[kind] }

// gadget returns a custom kind of a group whose objects have one field.
func gadget(group, field string) *kinds.Definition {
	verbs := []string{"get", "patch", "update"}
	return &kinds.Definition{
		Kind: &scheme.Kind{
			GroupVersionKind: schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Gadget"}, Custom: true,
			Resource: "gadgets", Singular: "gadget", Namespaced: true, StoragePrefix: group + "/gadgets",
			Subresources: []scheme.Subresource{
				{Name: "scale", Kind: autoscalingv1.SchemeGroupVersion.WithKind("Scale"), Verbs: verbs}, {Name: "status", Verbs: verbs},
			},
		},
		FieldLabels: []string{field},
		OpenAPI: &kinds.OpenAPI{Schema: func(v2 bool) *spec.Schema {
			s := &spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}}}
			return s.SetProperty(field, *spec.StringProperty().WithDefault("x")).
				SetProperty("metadata", spec.Schema{SchemaProps: spec.SchemaProps{Ref: kinds.ModelRef(kinds.ObjectMetaModel, v2), Description: "Metadata."}})
		}},
	}
}

// install serves definitions.
func install(t testing.TB, table *scheme.Table, all known, definitions ...*kinds.Definition) {
	t.Helper()
	for _, one := range definitions {
		all[one.Kind] = one
		if err := table.Install(one.Kind); err != nil {
			t.Fatal(err)
		}
	}
}

func read(t testing.TB, h http.Handler, at string, into any) {
	t.Helper()
	got := ask(t, h, http.MethodGet, at, nil)
	if got.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", at, got.Code, got.Body)
	}
	if err := json.Unmarshal([]byte(got.Body), into); err != nil {
		t.Fatal(err)
	}
}

func TestCustomKindIsDescribed(t *testing.T) {
	table, all := scheme.New(), known{}
	install(t, table, all, gadget("example.com", "color"))
	h := New(table, "v1.37.2", all.of, &Others{})
	var v2 spec.Swagger
	read(t, h, v2Path, &v2)
	var v3 spec3.OpenAPI
	read(t, h, v3Path+"/apis/example.com/v1", &v3)
	if v3.Info.Title != "Kubernetes CRD Swagger" {
		t.Errorf("the title is %q", v3.Info.Title)
	}
	object, list := v3.Components.Schemas["com.example.v1.Gadget"], v3.Components.Schemas["com.example.v1.GadgetList"]
	if object == nil || list == nil {
		t.Fatalf("v3 lacks the object (%v) or its list (%v)", object, list)
	}
	if object.Properties["color"].Default != "x" || len(object.Properties["metadata"].AllOf) != 1 {
		t.Errorf("in v3 the object is %+v", object)
	}
	for _, s := range []spec.Schema{*object, *list, v2.Definitions["com.example.v1.Gadget"], v2.Definitions["com.example.v1.GadgetList"]} {
		if got := fmt.Sprint(s.Extensions["x-kubernetes-selectable-fields"]); got != "[map[fieldPath:color]]" {
			t.Errorf("selectable fields: %s", got)
		}
		if got := fmt.Sprint(s.Extensions[gvkExtension]); !strings.HasPrefix(got, "[map[group:example.com kind:Gadget") {
			t.Errorf("kinds: %s", got)
		}
	}
	if color := v2.Definitions["com.example.v1.Gadget"].Properties["color"]; !color.Type.Contains("string") || color.Default != nil {
		t.Errorf("in v2 the field is %+v, want a string without a default", color)
	}
	for _, at := range []string{"gadgets", "namespaces/{namespace}/gadgets", "namespaces/{namespace}/gadgets/{name}"} {
		if v3.Paths.Paths["/apis/example.com/v1/"+at] == nil || v2.Paths.Paths["/apis/example.com/v1/"+at].Get == nil {
			t.Errorf("%s is not described", at)
		}
	}
	for part, want := range map[string]string{"status": "com.example.v1.Gadget", "scale": "io.k8s.api.autoscaling.v1.Scale"} {
		operation := v3.Paths.Paths["/apis/example.com/v1/namespaces/{namespace}/gadgets/{name}/"+part].Put
		body := operation.RequestBody.Content["application/json"]
		if body == nil || body.Schema.Ref.String() != "#/components/schemas/"+want || len(operation.RequestBody.Content) != 2 {
			t.Errorf("%s holds %+v, want %s as JSON and YAML", part, operation.RequestBody.Content, want)
		}
		if operation.OperationId != "replaceExampleComV1NamespacedGadget"+title1(part) || operation.Description != "replace "+part+" of the specified Gadget" {
			t.Errorf("%s: %s, %s", part, operation.OperationId, operation.Description)
		}
	}
	for name, s := range v3.Components.Schemas {
		for property, of := range s.Properties {
			for _, ref := range append(of.AllOf, of) {
				if at := ref.Ref.String(); at != "" && v3.Components.Schemas[strings.TrimPrefix(at, "#/components/schemas/")] == nil {
					t.Errorf("%s.%s refers to %s, which is not defined", name, property, at)
				}
			}
		}
	}
}

// TestOnlyChangedDocumentsAreBuilt: when a kind comes, changes or goes, only the document of its group
// and version is built again.
func TestOnlyChangedDocumentsAreBuilt(t *testing.T) {
	table, all := scheme.New(), known{}
	one, two := gadget("one.example.com", "color"), gadget("two.example.com", "color")
	install(t, table, all, one)
	h := New(table, "v1.37.2", all.of, &Others{})
	before := h.documents.Get()
	etag := func(s *server, at string) string {
		t.Helper()
		found, _, err := s.v3[v3Path+at].version()
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	first := etag(before, "/apis/one.example.com/v1")
	kept := func(now *server) (kept int) {
		for at, document := range now.v3 {
			if before.v3[at] == document {
				kept++
			}
		}
		return kept
	}
	install(t, table, all, two)
	if now := h.documents.Get(); now == before || kept(now) != len(before.v3) || len(now.v3) != len(before.v3)+1 {
		t.Errorf("after another kind came, %d of %d documents are kept, of %d", kept(now), len(before.v3), len(now.v3))
	}

	changed := gadget("one.example.com", "size")
	changed.Kind = one.Kind
	all[one.Kind] = changed
	if err := table.Replace([]*scheme.Kind{one.Kind}, []*scheme.Kind{one.Kind}); err != nil {
		t.Fatal(err)
	}
	now := h.documents.Get()
	if kept(now) != len(before.v3)-1 {
		t.Errorf("after a kind changed, %d of %d documents are kept", kept(now), len(before.v3))
	}
	if second := etag(now, "/apis/one.example.com/v1"); second == first {
		t.Error("the document has the same ETag with another schema")
	}
	var document spec3.OpenAPI
	read(t, h, v3Path+"/apis/one.example.com/v1", &document)
	if properties := document.Components.Schemas["com.example.one.v1.Gadget"].Properties; len(properties) != 2 || properties["size"].Type == nil {
		t.Errorf("the fields are %v", properties)
	}

	table.Remove(one.GroupVersionKind)
	if got := ask(t, h, http.MethodGet, v3Path+"/apis/one.example.com/v1", nil); got.Code != http.StatusNotFound {
		t.Errorf("a document of a group that has gone: got %d, want 404", got.Code)
	}
	var index struct{ Paths map[string]any }
	read(t, h, v3Path, &index)
	if index.Paths["apis/one.example.com/v1"] != nil || index.Paths["apis/two.example.com/v1"] == nil {
		t.Errorf("the index has %v", index.Paths)
	}
}

// BenchmarkCustomKinds measures what documents cost with 100 custom kinds, each in a group of its own.
func BenchmarkCustomKinds(b *testing.B) {
	const count = 100
	table, all := scheme.New(), known{}
	for i := range count {
		install(b, table, all, gadget(fmt.Sprintf("g%d.example.com", i), "color"))
	}
	warm := New(table, "v1.37.2", all.of, &Others{})
	var index map[string]any
	read(b, warm, v3Path, &index)
	extra := 0
	another := func() {
		install(b, table, all, gadget(fmt.Sprintf("x%d.example.com", extra), "color"))
		extra++
	}
	b.Run("index-first", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			read(b, New(table, "v1.37.2", all.of, &Others{}), v3Path, &index)
		}
	})
	b.Run("index-after-another", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			another()
			read(b, warm, v3Path, &index)
		}
	})
	b.Run("v2-after-another", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			another()
			var v2 struct{ Swagger string }
			read(b, warm, v2Path, &v2)
		}
	})
}
