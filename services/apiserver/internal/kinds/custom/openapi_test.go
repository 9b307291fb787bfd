package custom_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/custom"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/custom/conversion"
)

// described returns what clients read of a version with a schema, which is YAML.
func described(t *testing.T, schema string, preserve bool) *kinds.OpenAPI {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Name = "eggs.example.com"
	crd.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "example.com", Scope: apiextensionsv1.NamespaceScoped, PreserveUnknownFields: preserve,
		Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "eggs", Singular: "egg", Kind: "Egg", ListKind: "EggList"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true}},
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
	crd.Status.AcceptedNames = crd.Spec.Names
	if schema != "" {
		crd.Spec.Versions[0].Schema = &apiextensionsv1.CustomResourceValidation{}
		if err := yaml.UnmarshalStrict([]byte(schema), &crd.Spec.Versions[0].Schema.OpenAPIV3Schema); err != nil {
			t.Fatal(err)
		}
	}
	converters, err := conversion.New(conversion.Config{}) // No version is converted.
	if err != nil {
		t.Fatal(err)
	}
	made, err := custom.Definitions(crd, converters)
	if err != nil {
		t.Fatal(err)
	}
	return made[0].OpenAPI
}

// fieldsOf returns the fields of a schema with what is particular to them, one a line.
func fieldsOf(s spec.Schema, at string) []string {
	var found []string
	for name, property := range s.Properties {
		line := at + name + ":"
		for _, part := range []string{strings.Join(property.Type, ","), property.Ref.String()} {
			if part != "" {
				line += " " + part
			}
		}
		if property.Default != nil {
			line += fmt.Sprintf(" default=%v", property.Default)
		}
		if len(property.AnyOf) > 0 {
			line += fmt.Sprintf(" anyOf=%d", len(property.AnyOf))
		}
		for _, key := range slices.Sorted(maps.Keys(property.Extensions)) {
			line += fmt.Sprintf(" %s=%v", strings.TrimPrefix(key, "x-kubernetes-"), property.Extensions[key])
		}
		if len(property.Required) > 0 {
			line += " needs " + strings.Join(property.Required, ",")
		}
		found = append(append(found, line), fieldsOf(property, at+name+".")...)
	}
	return found
}

func TestSchemaAsClientsReadIt(t *testing.T) {
	const meta2, meta3 = "metadata: #/definitions/" + kinds.ObjectMetaModel, "metadata: #/components/schemas/" + kinds.ObjectMetaModel
	every := func(meta string, more ...string) []string {
		return append([]string{"apiVersion: string", "kind: string", meta}, more...)
	}
	for name, c := range map[string]struct {
		schema   string
		preserve bool
		v2, v3   []string
	}{
		"no schema": {},
		"metadata": {
			schema: `{type: object, properties: {metadata: {type: object, properties: {name: {type: string, maxLength: 3}}}}}`,
			v2:     every(meta2), v3: every(meta3),
		},
		"lists and maps": {
			schema: `{type: object, properties: {
				a: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [id], items: {type: object, required: [id], properties: {id: {type: string}}}},
				b: {type: object, x-kubernetes-map-type: atomic, additionalProperties: {type: string}}}}`,
			v2: every(meta2, "a: array list-map-keys=[id] list-type=map", "b: object map-type=atomic"),
			v3: every(meta3, "a: array list-map-keys=[id] list-type=map", "b: object map-type=atomic"),
		},
		"int or string, defaults": {
			schema: `{type: object, properties: {a: {x-kubernetes-int-or-string: true}, b: {type: string, default: x}}}`,
			v2:     every(meta2, "a: int-or-string=true", "b: string default=x"),
			v3:     every(meta3, "a: anyOf=2 int-or-string=true", "b: string default=x"),
		},
		"unknown fields below": {
			schema: `{type: object, properties: {a: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {b: {type: string}}}}}`,
			v2:     every(meta2, "a: preserve-unknown-fields=true"),
			v3:     every(meta3, "a: object preserve-unknown-fields=true", "a.b: string"),
		},
		"unknown fields at the top": {
			schema: `{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {b: {type: string}}}`,
			v3:     every(meta3, "b: string"),
		},
		"unknown fields anywhere": {
			schema: `{type: object, properties: {b: {type: string}}}`, preserve: true,
			v3: every(meta3, "b: string"),
		},
		"embedded": {
			schema: `{type: object, properties: {
				a: {type: object, x-kubernetes-embedded-resource: true, properties: {b: {type: string}}},
				c: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}}}`,
			v2: every(meta2, "a: object embedded-resource=true needs kind,apiVersion", "a.apiVersion: string", "a.b: string", "a.kind: string", "a."+meta2,
				"c: embedded-resource=true preserve-unknown-fields=true"),
			v3: every(meta3, "a: object embedded-resource=true needs kind,apiVersion", "a.apiVersion: string", "a.b: string", "a.kind: string", "a."+meta3,
				"c: object embedded-resource=true preserve-unknown-fields=true needs kind,apiVersion", "c.apiVersion: string", "c.kind: string", "c."+meta3),
		},
		"nullable": {
			schema: `{type: object, required: [a, b], properties: {a: {type: object, nullable: true, properties: {b: {type: string}}}, b: {type: string}}}`,
			v2:     every(meta2, "a:", "b: string"), v3: every(meta3, "a: object", "a.b: string", "b: string"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			described := described(t, c.schema, c.preserve)
			if described.PreserveUnknownFields != c.preserve {
				t.Errorf("keeps unknown fields: %t", described.PreserveUnknownFields)
			}
			for v2, want := range map[bool][]string{true: c.v2, false: c.v3} {
				for range 2 { // Each call makes another one.
					schema := described.Schema(v2)
					got := fieldsOf(*schema, "")
					slices.Sort(got)
					slices.Sort(want)
					if !slices.Equal(got, want) || !schema.Type.Contains("object") {
						t.Errorf("as v2: %t:\ngot  %q\nwant %q", v2, got, want)
					}
					schema.Properties, schema.Type = nil, nil
				}
			}
		})
	}
}
