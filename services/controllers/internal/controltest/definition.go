package controltest

import (
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/customkinds"
	"github.com/garboard/garboard/libs/scheme"
)

// Definition returns the established definition of a namespaced custom kind of the group example.com. All
// versions are served, and the first is stored.
func Definition(kind string, versions ...string) *apiextensionsv1.CustomResourceDefinition {
	names := apiextensionsv1.CustomResourceDefinitionNames{Plural: strings.ToLower(kind) + "s", Kind: kind}
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: names.Plural + ".example.com", UID: types.UID(names.Plural)},
		Spec:       apiextensionsv1.CustomResourceDefinitionSpec{Group: "example.com", Names: names, Scope: apiextensionsv1.NamespaceScoped},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{
			AcceptedNames: names,
			Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{
				{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue},
			},
		},
	}
	for i, version := range versions {
		definition.Spec.Versions = append(definition.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: version, Served: true, Storage: i == 0,
			Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
		})
	}
	return definition
}

// Custom returns an object of a custom kind of the group example.com in version v1.
func Custom(kind string, m metav1.ObjectMeta) scheme.Object {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: kind})
	obj.SetNamespace(m.Namespace)
	obj.SetName(m.Name)
	obj.SetUID(m.UID)
	obj.SetOwnerReferences(m.OwnerReferences)
	obj.SetFinalizers(m.Finalizers)
	return obj
}

// LoadCustom stores objects of a custom kind that the plane's table need not have yet.
func LoadCustom(p *Plane, definition *apiextensionsv1.CustomResourceDefinition, objs ...scheme.Object) {
	p.t.Helper()
	kinds, err := customkinds.Kinds(definition)
	if err != nil {
		p.t.Fatal(err)
	}
	if p.Table().Kind(kinds[0].GroupVersionKind) == nil {
		if err := p.Table().Install(kinds...); err != nil {
			p.t.Fatal(err)
		}
		defer p.Table().Remove(kinds[0].GroupVersionKind)
	}
	p.Load(objs...)
}

// CustomNames returns the names of the objects of a custom kind in all namespaces, sorted.
func CustomNames(p *Plane, definition *apiextensionsv1.CustomResourceDefinition) []string {
	p.t.Helper()
	kinds, err := customkinds.Kinds(definition)
	if err != nil {
		p.t.Fatal(err)
	}
	items, _, err := client.OfKind[*unstructured.Unstructured](p.Client, kinds[0]).List(p.t.Context(), "", metav1.ListOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	var names []string
	for _, item := range items {
		names = append(names, item.GetName())
	}
	slices.Sort(names)
	return names
}
