package binding_test

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/services/apiserver/internal/http/rest/resttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const aPod = `{"metadata":{"name":"NAME"},"spec":{"containers":[{"name":"c","image":"i"}]}}`

// TestBinding binds pods, by their paths and by the names of the Bindings.
func TestBinding(t *testing.T) {
	w := resttest.New(t)
	const pods = resttest.Default + "pods"
	for _, name := range []string{"p", "q"} {
		w.Script([]resttest.Step{{Send: "POST " + pods, Body: strings.ReplaceAll(aPod, "NAME", name), Want: "201 Pod " + name}})
	}
	w.Script([]resttest.Step{
		{Send: "POST " + pods + "/p/binding", Body: `{"metadata":{"name":"q"},"target":{"kind":"Node","name":"n1"}}`,
			Want: "400 name in URL does not match name in Binding object"},
		{Send: "POST " + pods + "/p/binding", Body: `{"target":{"kind":"Node","name":"n1"}}`, Want: "400 name in URL does not match name in Binding object"},
		{Send: "POST " + resttest.Default + "bindings", Body: `{"target":{"kind":"Node","name":"n1"}}`, Want: "400 Name parameter required."},
		{Send: "POST " + pods + "/p/binding?dryRun=All", Body: `{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n1"}}`, Want: "201 Status"},
		{Send: "POST " + pods + "/p/binding", Body: `{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n1"}}`, Want: "201 Status"},
		{Send: "POST " + pods + "/p/binding", Body: `{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n2"}}`,
			Want: `409 Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1"`},
		{Send: "POST " + pods + "/none/binding", Body: `{"metadata":{"name":"none"},"target":{"kind":"Node","name":"n1"}}`, Want: `404 pods "none" not found`},
		{Send: "POST " + pods + "/q/binding?fieldValidation=Strict", Body: `{"metadata":{"name":"q"},"target":{"kind":"Node","name":"n1"},"rocket":1}`, Want: "400 ..."},
		{Send: "POST " + pods + "/q/binding?dryRun=Some", Body: `{}`, Want: `422 CreateOptions.meta.k8s.io "" is invalid: ...`},
		{Send: "POST " + resttest.Default + "bindings", Body: `{"metadata":{"name":"q"},"target":{"kind":"Node","name":"n1"}}`, Want: "201 Status"},
		{Send: "GET " + pods + "?fieldSelector=spec.nodeName%3Dn1", Want: "200 PodList p q"},
		{Send: "GET " + pods + "/p/binding", Want: "405 ..."},
	})
}
