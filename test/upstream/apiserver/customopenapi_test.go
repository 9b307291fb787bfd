package upstream

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/kube-openapi/pkg/handler"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/openapi"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/builtin"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/custom"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/custom/conversion"
)

// everything has what the schema of a CustomResourceDefinition can have, and small ones that have little.
const everything = `
kind: CustomResourceDefinition
metadata: {name: eggs.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: eggs, singular: egg, kind: Egg, listKind: EggList}
  versions:
  - name: v1
    served: true
    storage: true
    selectableFields: [{jsonPath: .spec.color}, {jsonPath: .spec.size}]
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    schema:
      openAPIV3Schema:
        type: object
        description: An egg.
        required: [spec]
        x-kubernetes-validations: [{rule: "self.metadata.name != 'x'", message: no}]
        properties:
          spec:
            type: object
            required: [color]
            properties:
              color: {type: string, enum: [white, brown], default: white, title: Color, externalDocs: {url: "https://example.com", description: docs}, example: white}
              size: {type: integer, format: int32, minimum: 1, maximum: 9, exclusiveMaximum: true, multipleOf: 2}
              replicas: {type: integer}
              weight: {type: number, nullable: true}
              port: {x-kubernetes-int-or-string: true}
              target:
                x-kubernetes-int-or-string: true
                anyOf: [{type: integer}, {type: string}]
                pattern: "^[0-9]+$"
              share:
                x-kubernetes-int-or-string: true
                anyOf: [{pattern: "^1"}, {minimum: 1}]
              any: {type: object, x-kubernetes-preserve-unknown-fields: true}
              half: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: string}}}
              raw: {x-kubernetes-preserve-unknown-fields: true}
              template: {type: object, x-kubernetes-embedded-resource: true, properties: {spec: {type: object, properties: {a: {type: string}}}}}
              object: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true, required: [kind]}
              objects: {type: array, items: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}}
              set: {type: array, x-kubernetes-list-type: set, items: {type: string, maxLength: 5, minLength: 1}, maxItems: 5, minItems: 1}
              map:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name, port]
                items:
                  type: object
                  required: [name]
                  properties: {name: {type: string}, port: {type: integer, default: 80}, on: {type: boolean, default: true}}
              atoms: {type: array, x-kubernetes-list-type: atomic, items: {type: object, x-kubernetes-map-type: atomic, properties: {a: {type: string}}}}
              labels: {type: object, additionalProperties: {type: string}, maxProperties: 3, minProperties: 1}
              whole: {type: object, x-kubernetes-map-type: atomic, additionalProperties: {type: array, items: {type: string, format: date-time}}}
              open: {type: object, additionalProperties: true}
              oneOf:
                type: object
                properties: {a: {type: string}, b: {type: string}}
                oneOf: [{required: [a]}, {required: [b]}]
                not: {required: [c]}
              allOf: {type: string, allOf: [{pattern: a}, {pattern: b}]}
              nullMap: {type: object, nullable: true, properties: {a: {type: string}}}
              nullNeeded: {type: object, required: [a, b], properties: {a: {type: string, nullable: true}, b: {type: string}}}
              deep: {type: object, properties: {x: {type: array, items: {type: array, items: {type: string}}}}, default: {x: []}}
              rules: {type: array, maxItems: 9, items: {type: string, maxLength: 9}, x-kubernetes-validations: [{rule: "self.all(x, x != '')", reason: FieldValueInvalid, fieldPath: .x, optionalOldSelf: true}]}
          status: {type: object, properties: {replicas: {type: integer}}}
  - name: v2
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {spec: {type: object}}}}
---
kind: CustomResourceDefinition
metadata: {name: nests.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: nests, singular: nest, kind: Nest, listKind: NestList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {metadata: {type: object, properties: {name: {type: string, maxLength: 5}}}, spec: {type: object}}}}}
---
kind: CustomResourceDefinition
metadata: {name: hens.old.example.com}
spec:
  group: old.example.com
  scope: Cluster
  preserveUnknownFields: true
  names: {plural: hens, singular: hen, kind: Hen, listKind: HenList}
  versions:
  - {name: v1beta1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {a: {type: string}}}}}}}
---
kind: CustomResourceDefinition
metadata: {name: cocks.old.example.com}
spec:
  group: old.example.com
  scope: Cluster
  preserveUnknownFields: true
  names: {plural: cocks, singular: cock, kind: Cock, listKind: CockList}
  versions:
  - {name: v1beta1, served: true, storage: true}
`

// definitions returns CustomResourceDefinitions: ours, and those with which Kubernetes tests its own code.
func definitions(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	found := read(t, strings.NewReader(everything))
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/apiextensions-apiserver").Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "test/integration/ratcheting_test_cases/crds/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal("found no CustomResourceDefinitions of Kubernetes: ", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file) //nolint:gosec // A file of the module.
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, read(t, bytes.NewReader(data))...)
	}
	for _, crd := range found {
		apiextensionsv1.SetDefaults_CustomResourceDefinition(crd)
		apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
		crd.Status.AcceptedNames = crd.Spec.Names
	}
	return found
}

func read(t *testing.T, from io.Reader) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	var found []*apiextensionsv1.CustomResourceDefinition
	decoder := yaml.NewYAMLOrJSONDecoder(from, 1<<20)
	for {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		switch err := decoder.Decode(crd); {
		case err == io.EOF:
			return found
		case err != nil:
			t.Fatal(err)
		case crd.Kind == "CustomResourceDefinition":
			found = append(found, crd)
		}
	}
}

// TestOpenAPIOfCustomKinds compares what clients read of custom kinds with what Kubernetes publishes.
func TestOpenAPIOfCustomKinds(t *testing.T) {
	all, table := definitions(t), scheme.New()
	catalog, err := builtin.Catalog(table, builtin.Config{})
	if err != nil {
		t.Fatal(err)
	}
	converters, err := conversion.New(conversion.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range all {
		made, err := custom.Definitions(crd, converters)
		if err != nil {
			t.Fatal(err)
		}
		if err := catalog.Install(made...); err != nil {
			t.Fatal(err)
		}
	}
	ours := openapi.New(table, "v1.37.1", catalog.Of, &openapi.Others{})
	v2 := document(t, ours, "/openapi/v2")
	for _, crd := range all {
		for _, version := range crd.Spec.Versions {
			if !version.Served {
				continue
			}
			t.Run(crd.Name+"/"+version.Name, func(t *testing.T) {
				options := builder.Options{IncludeSelectableFields: true}
				three, err := builder.BuildOpenAPIV3(crd, version.Name, options)
				if err != nil {
					t.Fatal(err)
				}
				got := document(t, ours, path.Join("/openapi/v3/apis", crd.Spec.Group, version.Name))
				compareWithin(t, "v3", decoded(t, three), got, "openapi", "info", "paths", "components.schemas")

				options.V2 = true
				two, err := builder.BuildOpenAPIV2(crd, version.Name, options)
				if err != nil {
					t.Fatal(err)
				}
				two.Definitions = handler.PruneDefaults(two.Definitions)
				theirs := decoded(t, two)
				for _, one := range []map[string]any{theirs, v2} {
					resolveParameters(one["paths"], one["parameters"])
				}
				compareWithin(t, "v2", theirs, v2, "paths", "definitions")
			})
		}
	}
}

func document(t *testing.T, h http.Handler, at string) map[string]any {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, at, nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", at, w.Code, w.Body)
	}
	var found map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &found); err != nil {
		t.Fatal(err)
	}
	return found
}

func decoded(t *testing.T, built any) map[string]any {
	t.Helper()
	data, err := json.Marshal(built)
	if err != nil {
		t.Fatal(err)
	}
	var found map[string]any
	if err := json.Unmarshal(data, &found); err != nil {
		t.Fatal(err)
	}
	return found
}

// compareWithin compares each entry that theirs has in parts of a document: we describe several kinds at once.
func compareWithin(t *testing.T, what string, theirs, ours map[string]any, parts ...string) {
	t.Helper()
	for _, part := range parts {
		want, got := any(theirs), any(ours)
		for name := range strings.SplitSeq(part, ".") {
			want, got = want.(map[string]any)[name], got.(map[string]any)[name]
		}
		if entries, ok := want.(map[string]any); ok {
			for name, entry := range entries {
				compareDocuments(t, what+" "+part+" "+name, entry, got.(map[string]any)[name])
			}
			continue
		}
		compareDocuments(t, what+" "+part, want, got)
	}
}

// compareDocuments reports each place in which two documents differ.
func compareDocuments(t *testing.T, at string, want, got any) {
	t.Helper()
	one, ok := want.(map[string]any)
	other, both := got.(map[string]any)
	if !ok || !both {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-Kubernetes +ours):\n%.2000s", at, diff)
		}
		return
	}
	names := maps.Clone(one)
	maps.Copy(names, other)
	for name := range names {
		// These are of all versions of which a process happens to know the Go types.
		if name == "x-kubernetes-group-version-kind" && strings.Contains(at, "io.k8s.apimachinery.pkg.apis.meta.v1.") {
			continue
		}
		compareDocuments(t, at+" "+name, one[name], other[name])
	}
}

// resolveParameters replaces references to the parameters that paths share by these.
func resolveParameters(in, parameters any) {
	known, _ := parameters.(map[string]any)
	switch in := in.(type) {
	case map[string]any:
		for name, value := range in {
			if list, ok := value.([]any); ok && name == "parameters" {
				for i, one := range list {
					if ref, ok := one.(map[string]any)["$ref"].(string); ok {
						list[i] = known[strings.TrimPrefix(ref, "#/parameters/")]
					}
				}
			}
			resolveParameters(value, parameters)
		}
	case []any:
		for _, value := range in {
			resolveParameters(value, parameters)
		}
	}
}
