package scheme_test

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/garboard/garboard/libs/scheme"
)

// TestAPIServicesAreStoredAsText checks that etcd holds JSON, and that protobuf is read too.
func TestAPIServicesAreStoredAsText(t *testing.T) {
	table := scheme.New()
	kind := scheme.For[*apiregistrationv1.APIService](table)
	service := &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1.example.org", UID: "u"}, Spec: apiregistrationv1.APIServiceSpec{Group: "example.org", Version: "v1"}}
	service.GetObjectKind().SetGroupVersionKind(kind.GroupVersionKind)
	data, err := table.EncodeStorage(kind, service)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(data); !strings.HasPrefix(text, `{"kind":"APIService","apiVersion":"apiregistration.k8s.io/v1",`) || !strings.HasSuffix(text, "}\n") {
		t.Errorf("etcd holds %q", text)
	}
	info, _ := runtime.SerializerInfoForMediaType(table.Codecs().SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	protobuf, err := runtime.Encode(info.Serializer, service)
	if err != nil {
		t.Fatal(err)
	}
	for _, stored := range [][]byte{data, protobuf} {
		got, err := table.DecodeStorage(kind, stored)
		if err != nil || !apiequality.Semantic.DeepEqual(got, service) {
			t.Errorf("read %+v of %q: %v", got, stored, err)
		}
	}
	if _, err := table.DecodeStorage(kind, []byte(`{"kind":"APIService","apiVersion":"apiregistration.k8s.io/v9"}`)); err == nil {
		t.Error("an unknown version is read")
	}
}

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
