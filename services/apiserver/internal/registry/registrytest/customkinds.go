package registrytest

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/custom"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/custom/conversion"
)

// Eggs returns a CustomResourceDefinition in YAML of the namespaced kind Egg in example.com/v1, whose spec has
// these properties.
func Eggs(properties string) string {
	return `
metadata: {name: eggs.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: eggs, singular: egg, kind: Egg, listKind: EggList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {` + properties + `}}}}}
`
}

// Serve serves a CustomResourceDefinition in YAML from now on, instead of what the catalog has of it. Its
// versions cannot be converted. It returns the kind of the first version.
func Serve(t testing.TB, catalog *kinds.Catalog, text string) *scheme.Kind {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict([]byte(text), crd); err != nil {
		t.Fatal(err)
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
	crd.Status.AcceptedNames = crd.Spec.Names
	converters, err := conversion.New(conversion.Config{})
	if err != nil {
		t.Fatal(err)
	}
	made, err := custom.Definitions(crd, converters)
	if err != nil {
		t.Fatal(err)
	}
	var gone []*scheme.Kind
	for _, definition := range made {
		if known := catalog.Find(definition.GroupVersionKind); known != nil {
			gone = append(gone, known.Kind)
		}
	}
	if err := catalog.Replace(gone, made); err != nil {
		t.Fatal(err)
	}
	return made[0].Kind
}
