package custom

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/goleak"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/garboard/garboard/services/apiserver/internal/fabric/endpoints"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/custom/conversion"
)

// TestMain tolerates Kubernetes' logger, which flushes for as long as the process runs.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

// head is the beginning of a definition's spec; its versions follow.
const head = `
group: example.org
scope: Namespaced
names: {plural: gadgets, singular: gadget, kind: Gadget, listKind: GadgetHeap, shortNames: [gd], categories: [all]}
versions:
`

// nowhere is a Resolver without Services.
type nowhere struct{}

func (nowhere) Resolve(context.Context, string, string, int32) (endpoints.Endpoint, error) {
	return endpoints.Endpoint{}, errors.New("no such service")
}

// definitionOf returns a CustomResourceDefinition with a spec in YAML, whose names are accepted.
func definitionOf(t testing.TB, spec string) *crd {
	t.Helper()
	made := &crd{}
	made.Name = "gadgets.example.org"
	if err := yaml.UnmarshalStrict([]byte(spec), &made.Spec); err != nil {
		t.Fatal(err)
	}
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(made)
	made.Status.AcceptedNames = made.Spec.Names
	return made
}

// kindsOf returns the definitions of the kinds that a CustomResourceDefinition defines, by version.
func kindsOf(t testing.TB, of *crd) (map[string]*kinds.Definition, error) {
	t.Helper()
	converters, err := conversion.New(conversion.Config{Resolver: nowhere{}})
	if err != nil {
		t.Fatal(err)
	}
	all, err := Definitions(of, converters)
	found := map[string]*kinds.Definition{}
	for _, one := range all {
		found[one.Version] = one
	}
	return found, err
}

// kindOfVersion returns the definition of the version v1, which is the only one and has these fields in YAML.
func kindOfVersion(t testing.TB, fields string) *kinds.Definition {
	t.Helper()
	found, err := kindsOf(t, definitionOf(t, head+"- {name: v1, served: true, storage: true, "+fields+"}"))
	if err != nil {
		t.Fatal(err)
	}
	return found["v1"]
}

// gadget returns the object g of version v1 with these fields in YAML.
func gadget(t testing.TB, fields string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	text := "apiVersion: example.org/v1\nkind: Gadget\n" + fields
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	if data, err := u.MarshalJSON(); err != nil || u.UnmarshalJSON(data) != nil { // Numbers are int64 as in requests.
		t.Fatal(err)
	}
	if u.GetName() == "" {
		u.SetName("g")
		u.SetNamespace("default")
	}
	u.SetResourceVersion("1")
	return u
}

// texts returns the texts of errors.
func texts(errs field.ErrorList) []string {
	var all []string
	for _, err := range errs {
		all = append(all, err.Error())
	}
	return all
}
