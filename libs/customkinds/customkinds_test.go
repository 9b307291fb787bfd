package customkinds_test

import (
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/customkinds"
	"github.com/garboard/garboard/libs/scheme"
)

// gadgets defines Gadgets in versions: "v1" is served, "(v1)" is not, and "v1*" is stored.
func gadgets(versions ...string) *apiextensionsv1.CustomResourceDefinition {
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "gadgets.example.com"},
		Spec:       apiextensionsv1.CustomResourceDefinitionSpec{Group: "example.com", Scope: apiextensionsv1.NamespaceScoped},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{
			AcceptedNames: apiextensionsv1.CustomResourceDefinitionNames{Plural: "gadgets", Kind: "Gadget"},
		},
	}
	for _, text := range versions {
		one := apiextensionsv1.CustomResourceDefinitionVersion{Served: text[0] != '('}
		for _, letter := range text {
			switch letter {
			case '(', ')':
			case '*':
				one.Storage = true
			default:
				one.Name += string(letter)
			}
		}
		definition.Spec.Versions = append(definition.Spec.Versions, one)
	}
	return definition
}

// TestKinds checks which versions of a definition become kinds, and by which of them clients read what
// etcd holds.
func TestKinds(t *testing.T) {
	for name, c := range map[string]struct {
		versions []string
		kinds    []string
		reads    string // empty if nothing is served
	}{
		"one version":        {versions: []string{"v1*"}, kinds: []string{"v1"}, reads: "v1"},
		"two versions":       {versions: []string{"v2", "v1*"}, kinds: []string{"v2", "v1"}, reads: "v1"},
		"stored, not served": {versions: []string{"(v1)*", "v2", "v3"}, kinds: []string{"v1", "v2", "v3"}, reads: "v2"},
		"neither":            {versions: []string{"(v1)", "v2*"}, kinds: []string{"v2"}, reads: "v2"},
		"nothing served":     {versions: []string{"(v1)*", "(v2)"}, kinds: []string{"v1"}},
	} {
		t.Run(name, func(t *testing.T) {
			kinds, err := customkinds.Kinds(gadgets(c.versions...))
			if err != nil {
				t.Fatal(err)
			}
			table := scheme.New()
			builtIn := len(customkinds.Readable(table.Kinds()))
			if err := table.Install(kinds...); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, kind := range kinds {
				got = append(got, kind.Version)
			}
			if !slices.Equal(got, c.kinds) {
				t.Errorf("got the kinds %v, want %v", got, c.kinds)
			}
			readable := customkinds.Readable(table.Kinds())[builtIn:]
			if c.reads == "" && len(readable) > 0 || c.reads != "" && (len(readable) != 1 || readable[0].Version != c.reads) {
				t.Errorf("got the readable kinds %v, want version %q", readable, c.reads)
			}
		})
	}
	if kinds, err := customkinds.Kinds(gadgets("v1", "v2")); err == nil {
		t.Errorf("got %v of a definition without a stored version", kinds)
	}
	for _, kind := range customkinds.Readable(scheme.New().Kinds()) {
		if !kind.Stored() {
			t.Errorf("%s is not what etcd holds", kind.GroupVersionKind)
		}
	}
}
