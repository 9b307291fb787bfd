package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// eggs is a CustomResourceDefinition; its fields are those in the one place that is left open.
const eggs = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"eggs.example.com"},"spec":{
	"group":"example.com","scope":"Namespaced","names":{"plural":"eggs","singular":"egg","kind":"Egg"},
	"versions":[{"name":"v1","served":true,"storage":true,"selectableFields":[{"jsonPath":".spec.color"}],
		"subresources":{"status":{},"scale":{"specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas"}},
		"schema":{"openAPIV3Schema":{"type":"object","description":"An egg.","properties":{
			"spec":{"type":"object","properties":{"replicas":{"type":"integer"},%s}},
			"status":{"type":"object","properties":{"replicas":{"type":"integer"}}}}}}}]}}`

const (
	eggFields = `"color":{"type":"string","default":"white"},
		"keyed":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],
			"items":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"value":{"type":"string"}}}}`
	definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	eggPaths    = "/apis/example.com/v1/namespaces/default/eggs"
)

// served waits until the schema of eggs has a field, and returns the document.
func served(t *testing.T, s *harness.Server, admin *rest.Config, field string) *spec3.OpenAPI {
	t.Helper()
	var document *spec3.OpenAPI
	harness.Await(t, "the document of example.com/v1", func() error {
		res, body := s.Exchange(admin, http.MethodGet, "/openapi/v3/apis/example.com/v1", "", nil)
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("got %d %s", res.StatusCode, body)
		}
		document = &spec3.OpenAPI{}
		if err := json.Unmarshal([]byte(body), document); err != nil {
			return err
		}
		if egg := document.Components.Schemas["com.example.v1.Egg"]; egg == nil || egg.Properties["spec"].Properties[field].Type == nil {
			return fmt.Errorf("the schema is %+v, want the field %s", egg, field)
		}
		return nil
	})
	return document
}

// TestSchemaOfACustomKind reads a custom kind's schema, changes it, and removes the kind.
func TestSchemaOfACustomKind(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	admin := s.Admin()
	if res, body := s.Exchange(admin, http.MethodPost, definitions, fmt.Sprintf(eggs, eggFields), map[string]string{"Content-Type": "application/json"}); res.StatusCode != http.StatusCreated {
		t.Fatalf("creating the definition: %d %s", res.StatusCode, body)
	}
	document := served(t, s, admin, "keyed")
	egg := document.Components.Schemas["com.example.v1.Egg"]
	if color := egg.Properties["spec"].Properties["color"]; color.Default != "white" || egg.Description != "An egg." {
		t.Errorf("the schema is %+v", egg)
	}
	if got := fmt.Sprint(egg.Extensions["x-kubernetes-selectable-fields"]); got != "[map[fieldPath:spec.color]]" {
		t.Errorf("the selectable fields are %s", got)
	}
	if keyed := egg.Properties["spec"].Properties["keyed"]; fmt.Sprint(keyed.Extensions["x-kubernetes-list-map-keys"]) != "[name]" {
		t.Errorf("the keys of the list are %v", keyed.Extensions)
	}
	_, body := s.Exchange(admin, http.MethodGet, "/openapi/v2", "", nil)
	var v2 spec.Swagger
	if err := json.Unmarshal([]byte(body), &v2); err != nil {
		t.Fatal(err)
	}
	if color := v2.Definitions["com.example.v1.Egg"].Properties["spec"].Properties["color"]; !color.Type.Contains("string") || color.Default != nil {
		t.Errorf("in v2 the color is %+v, want a string without a default", color)
	}
	for _, part := range []string{"", "/status", "/scale"} {
		at := "/apis/example.com/v1/namespaces/{namespace}/eggs/{name}" + part
		if document.Paths.Paths[at] == nil || v2.Paths.Paths[at].Patch == nil {
			t.Errorf("%s is not described", at)
		}
	}

	merge := map[string]string{"Content-Type": "application/json-patch+json"}
	const patch = `[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size","value":{"type":"integer"}}]`
	if res, body := s.Exchange(admin, http.MethodPatch, definitions+"/eggs.example.com", patch, merge); res.StatusCode != http.StatusOK {
		t.Fatalf("changing the schema: %d %s", res.StatusCode, body)
	}
	served(t, s, admin, "size")

	if res, body := s.Exchange(admin, http.MethodDelete, definitions+"/eggs.example.com", "", nil); res.StatusCode != http.StatusOK {
		t.Fatalf("deleting the definition: %d %s", res.StatusCode, body)
	}
	harness.Eventually(t, "the documents are without the kind", func() bool {
		res, _ := s.Exchange(admin, http.MethodGet, "/openapi/v3/apis/example.com/v1", "", nil)
		_, body := s.Exchange(admin, http.MethodGet, "/openapi/v2", "", nil)
		return res.StatusCode == http.StatusNotFound && !strings.Contains(body, "com.example.v1.Egg")
	})
}

// TestApplyToACustomKind has two managers apply to a list whose entries have keys.
func TestApplyToACustomKind(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	admin := s.Admin()
	if res, body := s.Exchange(admin, http.MethodPost, definitions, fmt.Sprintf(eggs, eggFields), map[string]string{"Content-Type": "application/json"}); res.StatusCode != http.StatusCreated {
		t.Fatalf("creating the definition: %d %s", res.StatusCode, body)
	}
	served(t, s, admin, "keyed")
	write := func(contentType, at, body string) (*http.Response, *unstructured.Unstructured) {
		t.Helper()
		res, text := s.Exchange(admin, http.MethodPatch, at, body, map[string]string{"Content-Type": contentType})
		answer := &unstructured.Unstructured{}
		if err := answer.UnmarshalJSON([]byte(text)); err != nil {
			t.Fatalf("%s: %v: %s", body, err, text)
		}
		return res, answer
	}
	apply := func(manager, spec string) (*http.Response, *unstructured.Unstructured) {
		t.Helper()
		return write("application/apply-patch+yaml", eggPaths+"/e?fieldManager="+manager,
			`{"apiVersion":"example.com/v1","kind":"Egg","metadata":{"name":"e"},"spec":`+spec+`}`)
	}
	entries := func(obj *unstructured.Unstructured) string {
		list, _, _ := unstructured.NestedSlice(obj.Object, "spec", "keyed")
		return fmt.Sprint(list)
	}
	if res, obj := apply("one", `{"replicas":1,"keyed":[{"name":"a","value":"x"}]}`); res.StatusCode != http.StatusCreated {
		t.Fatalf("the first manager: %d %v", res.StatusCode, obj.Object)
	}
	if res, obj := apply("two", `{"keyed":[{"name":"b","value":"y"}]}`); res.StatusCode != http.StatusOK || entries(obj) != "[map[name:a value:x] map[name:b value:y]]" {
		t.Errorf("the second manager: %d %v", res.StatusCode, obj.Object)
	}
	res, status := apply("two", `{"keyed":[{"name":"a","value":"z"}]}`)
	const conflict = `Apply failed with 1 conflict: conflict with "one": .spec.keyed[name="a"].value`
	if message, _, _ := unstructured.NestedString(status.Object, "message"); res.StatusCode != http.StatusConflict || message != conflict {
		t.Errorf("the same entry: %d %s", res.StatusCode, message)
	}
	if res, obj := apply("one", `{"replicas":1}`); res.StatusCode != http.StatusOK || entries(obj) != "[map[name:b value:y]]" {
		t.Errorf("without its entry: %d %v", res.StatusCode, obj.Object)
	}

	// A part's writer owns what the part covers.
	if res, obj := write("application/merge-patch+json", eggPaths+"/e/status?fieldManager=three", `{"status":{"replicas":1},"metadata":{"labels":{"a":"b"}}}`); res.StatusCode != http.StatusOK {
		t.Errorf("the status: %d %v", res.StatusCode, obj.Object)
	}
	if res, obj := write("application/merge-patch+json", eggPaths+"/e/scale?fieldManager=four", `{"spec":{"replicas":2}}`); res.StatusCode != http.StatusOK {
		t.Errorf("the scale: %d %v", res.StatusCode, obj.Object)
	}
	_, body := s.Exchange(admin, http.MethodGet, eggPaths+"/e", "", nil)
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON([]byte(body)); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, entry := range obj.GetManagedFields() {
		got[entry.Manager+"/"+entry.Subresource] = entry.FieldsV1.String()
	}
	want := map[string]string{
		"two/": `{"f:spec":{"f:keyed":{"k:{\"name\":\"b\"}":{".":{},"f:name":{},"f:value":{}}}}}`, "three/status": `{"f:status":{".":{},"f:replicas":{}}}`,
		"four/scale": `{"f:spec":{"f:replicas":{}}}`,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("owned:\ngot  %v\nwant %v", got, want)
	}
}
