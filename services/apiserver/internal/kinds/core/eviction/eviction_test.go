package eviction_test

import (
	"testing"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/rest/resttest"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestEviction evicts a pod, after a dry run that its body asks for.
func TestEviction(t *testing.T) {
	w := resttest.New(t)
	const pods = resttest.Default + "pods"
	w.Script([]resttest.Step{
		{Send: "POST " + pods, Body: `{"metadata":{"name":"r"},"spec":{"containers":[{"name":"c","image":"i"}]}}`, Want: "201 Pod r"},
		{Send: "POST " + pods + "/r/eviction", Body: `{}`, Want: "400 name in URL does not match name in Eviction object"},
		{Send: "POST " + pods + "/r/eviction?dryRun=Some", Body: `{}`, Want: `422 CreateOptions.meta.k8s.io "" is invalid: ...`},
		{Send: "POST " + pods + "/r/eviction", Body: `{"metadata":{"name":"r"},"rocket":1,"deleteOptions":{"dryRun":["All"]}}`, Want: "201 Status",
			Warns: []string{`unknown field "rocket"`}},
		{Send: "POST " + pods + "/r/eviction", Body: `{"metadata":{"name":"r"},"deleteOptions":{"dryRun":["All"]}}`, Want: "201 Status"},
		{Send: "GET " + pods + "/r", Want: "200 Pod r"},
		{Send: "POST " + pods + "/r/eviction", Body: `{"metadata":{"name":"r"}}`, Want: "201 Status"},
		{Send: "GET " + pods + "/r", Want: `404 pods "r" not found`},
		{Send: "POST " + pods + "/r/eviction", Body: `{"metadata":{"name":"r"}}`, Want: `404 pods "r" not found`},
		{Send: "POST " + pods + "/r/eviction", Body: `{"kind":"Eviction","apiVersion":"policy/v1beta1","metadata":{"name":"r"}}`, Want: "400 ..."},
	})
}

// TestOtherKinds checks that the eviction of an object of another kind evicts no pod of that name: its
// caller may do nothing to pods.
func TestOtherKinds(t *testing.T) {
	w := resttest.New(t)
	widget := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	held := schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "Eviction"}
	if err := w.Catalog.Install(&kinds.Definition{Kind: &scheme.Kind{
		GroupVersionKind: widget, Resource: "widgets", Singular: "widget", Namespaced: true, Custom: true, Storage: widget,
		StoragePrefix: "example.com/widgets",
		Subresources:  []scheme.Subresource{{Name: "eviction", Kind: held, Verbs: []string{"create"}}},
	}}); err != nil {
		t.Fatal(err)
	}
	const pods = resttest.Default + "pods"
	w.Script([]resttest.Step{
		{Send: "POST " + pods, Body: `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`, Want: "201 Pod p"},
		{Send: "POST /apis/example.com/v1/namespaces/default/widgets/p/eviction", Body: `{"metadata":{"name":"p"}}`, Want: "405 ..."},
		{Send: "GET " + pods + "/p", Want: "200 Pod p"},
	})
}
