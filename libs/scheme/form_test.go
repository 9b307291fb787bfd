package scheme_test

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
)

// TestDefinitionsAreStoredAsKubernetesDoes checks that etcd holds v1beta1 JSON, and that v1 is read too.
func TestDefinitionsAreStoredAsKubernetesDoes(t *testing.T) {
	table := scheme.New()
	kind := scheme.For[*apiextensionsv1.CustomResourceDefinition](table)
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "gadgets.example.org", UID: "u"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.org", Scope: apiextensionsv1.NamespaceScoped,
			Names:      apiextensionsv1.CustomResourceDefinitionNames{Plural: "gadgets", Singular: "gadget", Kind: "Gadget", ListKind: "GadgetList"},
			Conversion: &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
					OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"},
				},
			}},
		},
	}
	data, err := table.EncodeStorage(kind, crd.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	if text := string(data); !strings.Contains(text, `"apiVersion":"apiextensions.k8s.io/v1beta1"`) || !strings.Contains(text, `"validation":`) {
		t.Errorf("etcd holds %s", text)
	}
	plain := `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"gadgets.example.org","uid":"u"},` +
		`"spec":{"group":"example.org","scope":"Namespaced","names":{"plural":"gadgets","singular":"gadget","kind":"Gadget","listKind":"GadgetList"},` +
		`"conversion":{"strategy":"None"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`
	for name, stored := range map[string]string{"v1beta1": string(data), "v1": plain} {
		obj, err := table.DecodeStorage(kind, []byte(stored))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, want := obj.(*apiextensionsv1.CustomResourceDefinition), crd
		if !apiequality.Semantic.DeepEqual(got.Spec, want.Spec) || got.UID != want.UID {
			t.Errorf("%s: read %+v, want %+v", name, got.Spec, want.Spec)
		}
	}
}
