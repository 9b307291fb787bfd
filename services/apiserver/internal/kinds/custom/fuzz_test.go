package custom_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/garboard/garboard/services/apiserver/internal/fabric/endpoints"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/apiextensions"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/custom"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/custom/conversion"
)

// unresolved is a Resolver without Services.
type unresolved struct{}

func (unresolved) Resolve(context.Context, string, string, int32) (endpoints.Endpoint, error) {
	return endpoints.Endpoint{}, errors.New("no such service")
}

// slowest is how long anything may take that the fuzzer finds; race detectors and busy machines included.
const slowest = 30 * time.Second

func jsonOf(f *testing.F, text string) []byte {
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		f.Fatal(err)
	}
	return data
}

// served returns the definition of a kind whose only version has these fields in JSON; nil if it is invalid.
func served(t testing.TB, converters *conversion.Converters, fields []byte) *kinds.Definition {
	t.Helper()
	of := &apiextensionsv1.CustomResourceDefinition{}
	of.Name, of.UID = "gadgets.example.org", types.UID("u")
	of.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "example.org", Scope: apiextensionsv1.NamespaceScoped, Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "gadgets", Kind: "Gadget"},
		Versions: make([]apiextensionsv1.CustomResourceDefinitionVersion, 1),
	}
	only := &of.Spec.Versions[0]
	if json.Unmarshal(fields, only) != nil {
		return nil
	}
	only.Name, only.Served, only.Storage = "v1", true, true
	kind := apiextensions.CustomResourceDefinition()
	kind.Default(of)
	kind.PrepareForCreate(of)
	if len(kind.Validate(of)) > 0 {
		return nil
	}
	kind.CreationWarnings(of)
	of.Status.AcceptedNames = of.Spec.Names
	made, err := custom.Definitions(of, converters)
	if err != nil {
		t.Fatalf("a valid definition cannot be served: %v", err)
	}
	return made[0]
}

// use does with an object what requests do.
func use(t *testing.T, kind *kinds.Definition, data []byte) {
	u := &unstructured.Unstructured{}
	if u.UnmarshalJSON(data) != nil {
		return
	}
	u.SetAPIVersion("example.org/v1")
	u.SetKind("Gadget")
	held := u.DeepCopy()
	if kind.Restore(held) == nil {
		kind.Columns.Cells(held, time.Now())
	}
	if _, err := kind.Prune(u, kinds.Pruning{Report: true}); err != nil {
		return
	}
	u.SetNamespace("default")
	u.SetName("g")
	kind.PrepareForCreate(u)
	kind.Default(u)
	if kind.Fields != nil {
		kind.Fields(u)
	}
	if kind.Replicas != nil {
		_, _ = kind.Replicas.Scale(u)
		kind.Replicas.Set(u.DeepCopy(), 3)
	}
	kind.Columns.Cells(u, time.Now())
	again := u.DeepCopy()
	if _, err := kind.Prune(again, kinds.Pruning{}); err != nil {
		t.Fatalf("what is pruned cannot be pruned again: %v", err)
	}
	kind.Default(again)
	if diff := cmp.Diff(u.Object, again.Object); diff != "" {
		t.Errorf("pruning and defaulting again changes an object:\n%s", diff)
	}
	u.SetResourceVersion("1")
	if len(kind.Validate(u)) > 0 {
		return
	}
	if _, err := u.MarshalJSON(); err != nil {
		t.Errorf("a valid object cannot be written: %v", err)
	}
	next := u.DeepCopy()
	kind.Update.Prepare(next, u)
	if status, ok := kind.Subresources["status"]; ok {
		part := u.DeepCopy()
		status.Prepare(part, u)
		status.Validate(part, u)
	}
	kind.Update.Validate(next, u)
}

const (
	hostileSchema = `
additionalPrinterColumns: [{name: A, type: string, jsonPath: ".spec['size','count']"}, {name: B, type: integer, jsonPath: .spec.map}, {name: C, type: date, jsonPath: ..k}]
selectableFields: [{jsonPath: .spec.size}, {jsonPath: .spec.count}]
subresources: {status: {}, scale: {specReplicasPath: .spec.count, statusReplicasPath: .status.count, labelSelectorPath: .status.s}}
schema:
  openAPIV3Schema:
    type: object
    properties:
      metadata: {type: object, properties: {name: {type: string, maxLength: 5}}}
      spec:
        type: object
        default: {}
        properties:
          size: {type: string, default: a, pattern: "^(a|b+)*$", maxLength: 9}
          count: {type: integer, format: int32, minimum: 0, nullable: true}
          either: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}
          number: {type: number, multipleOf: 0.1}
          at: {type: string, format: date-time}
          bytes: {type: string, format: byte}
          free: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {in: {type: object, properties: {a: {type: string}}}}}
          within: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
          set: {type: array, maxItems: 9, x-kubernetes-list-type: set, items: {type: string, maxLength: 9}}
          map: {type: array, maxItems: 9, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k, l],
            items: {type: object, required: [k], properties: {k: {type: string, maxLength: 9}, l: {type: integer, default: 7}, m: {type: string, nullable: true, default: x}}}}
          named: {type: object, maxProperties: 9, additionalProperties: {type: array, maxItems: 9, items: {type: object, properties: {k: {type: boolean, default: true}}}}}
        x-kubernetes-validations:
        - {rule: "!has(self.set) || self.set.all(s, s.matches('^[a-z]*$'))", messageExpression: "'the set: ' + self.set.map(s, s + s)[0]", fieldPath: .set}
        - {rule: "!has(self.map) || self.map.exists_one(e, e.k == 'a') || !oldSelf.hasValue()", optionalOldSelf: true, reason: FieldValueForbidden}
        - {rule: "!has(self.at) || self.at > timestamp('2020-01-01T00:00:00Z')"}
        - {rule: "!has(self.bytes) || self.bytes.size() < 10"}
        - {rule: "!has(self.either) || (type(self.either) == int ? self.either < 5 : self.either.size() < 5)"}
      status: {type: object, properties: {count: {type: integer}, s: {type: string}}}`
	sane = `
metadata: {name: g, namespace: default, labels: {a: b}, managedFields: [{manager: m, operation: Update, apiVersion: example.org/v1, fieldsType: FieldsV1, fieldsV1: {"f:spec": {"k:{\"k\":1}": {}, "v:1": {}, "i:0": {}, "x": {}}}}]}
spec: {size: aab, count: 3, either: 4, number: 0.3, at: "2030-01-01T00:00:00Z", bytes: YQ==, free: {x: [1, null, {}], in: {a: b, c: d}}, within: {apiVersion: v1, kind: A, metadata: {name: x, labels: {a: 1}}},
  set: [a, b], map: [{k: a}, {k: b, l: 1, m: null}], named: {x: [{}, {k: false}], "": []}}
status: {count: 1, s: a=b}`
)

// FuzzObject has an author of custom resources write anything of a kind that has every feature.
func FuzzObject(f *testing.F) {
	converters, err := conversion.New(conversion.Config{Resolver: unresolved{}})
	if err != nil {
		f.Fatal(err)
	}
	kind := served(f, converters, jsonOf(f, hostileSchema))
	if kind == nil {
		f.Fatal("the definition is invalid")
	}
	f.Add(jsonOf(f, sane))
	for _, seed := range []string{
		"", "null", "[]", "1", `{"spec":null}`, `{"spec":[]}`, `{"metadata":null,"spec":{"count":1e400}}`, `{"spec":{"count":-0,"number":-0.0}}`, `{"spec":{"count":99999999999999999999}}`,
		`{"spec":{"count":1.0,"either":1.5,"number":1e308}}`, `{"spec":{"either":{},"within":{}}}`, `{"spec":{"size":"a","size":"b"},"spec":{}}`, "{\"spec\":{\"size\":\"\\u0000\\ud800\"}}",
		`{"spec":{"free":{"metadata":{"a":1}},"within":{"apiVersion":1,"kind":"","metadata":[]}}}`, `{"spec":{"set":["a","a",null],"map":[{},null,{"k":"a"},{"k":"a"}]}}`,
		`{"metadata":{"labels":{"a":null},"annotations":7,"creationTimestamp":"never","generation":-1,"managedFields":[null,{}],"ownerReferences":[{"uid":""}]}}`,
		`{"spec":{"free":` + strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000) + "}}", `{"spec":{"named":{"a":[{"k":null}],"b":null,"c":[[]]}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, object []byte) {
		began := time.Now()
		use(t, kind, object)
		if took := time.Since(began); took > slowest {
			t.Errorf("%d bytes took %v", len(object), took)
		}
	})
}

// FuzzDefinition has an author of definitions write anything, with an object of the kind.
func FuzzDefinition(f *testing.F) {
	converters, err := conversion.New(conversion.Config{Resolver: unresolved{}})
	if err != nil {
		f.Fatal(err)
	}
	object := jsonOf(f, sane)
	schema := func(text string) []byte { return jsonOf(f, "schema: {openAPIV3Schema: "+text+"}") }
	for _, seed := range [][]byte{
		jsonOf(f, hostileSchema), schema("{type: object}"), schema("{type: object, $ref: '#/x'}"), schema("{type: object, x-kubernetes-preserve-unknown-fields: true}"),
		schema("{type: object, properties: {a: {type: object, allOf: [{not: {anyOf: [{required: [b]}]}}], additionalProperties: {x-kubernetes-int-or-string: true}}}}"),
		schema("{type: object, properties: {spec: {type: array, default: [1, null], nullable: true, items: {type: integer, enum: [1, 2, null], nullable: true}}}}"),
		schema("{type: object, properties: {spec: {type: object, default: {a: {b: 1}}, properties: {a: {type: object, default: {b: 2}, properties: {b: {type: integer, default: 3}}}}}}}"),
		schema(`{type: object, x-kubernetes-validations: [{rule: "self.metadata.name.startsWith('g')", messageExpression: "self.kind + 'x'"}, {rule: "oldSelf == self"}], properties: {` +
			`spec: {type: string, maxLength: 5, x-kubernetes-validations: [{rule: "self.find('a+') != '' && [1, 2].all(x, x > 0)", fieldPath: ""}]}}}`),
		schema("{type: object, properties: {" + strings.Repeat("a: {type: object, properties: {", 50) + "b: {type: string}" + strings.Repeat("}}", 50) + "}}"),
		schema("{type: object, properties: {spec: {type: object, maxProperties: 3, x-kubernetes-map-type: atomic, additionalProperties: {type: string, format: odd, enum: [a]}}}}"),
		[]byte(`{"additionalPrinterColumns":[{"name":"A","type":"string","jsonPath":".a}{range .b[*]}{[0]}{end}"}],"schema":{"openAPIV3Schema":{"type":"object"}}}`),
		[]byte(`{"additionalPrinterColumns":[{"name":"A","type":"date","jsonPath":".spec[?(@.a>1)]"}],"schema":{"openAPIV3Schema":{"type":"object"}},"deprecated":true}`),
	} {
		f.Add(seed, object)
	}
	f.Fuzz(func(t *testing.T, fields, object []byte) {
		began := time.Now()
		if kind := served(t, converters, fields); kind != nil {
			kind.OpenAPI.Schema(false)
			kind.OpenAPI.Schema(true)
			use(t, kind, object)
		}
		if took := time.Since(began); took > slowest {
			t.Errorf("%d and %d bytes took %v", len(fields), len(object), took)
		}
	})
}
