package scale_test

import (
	"encoding/json"
	"testing"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/services/apiserver/internal/http/rest/resttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const deployments = "/apis/apps/v1/namespaces/default/deployments"

func TestScale(t *testing.T) {
	w := resttest.New(t)
	const merge, apply = "Content-Type: application/merge-patch+json", "Content-Type: application/apply-patch+yaml"
	w.Script([]resttest.Step{
		{Send: "POST " + deployments, Body: `{"metadata":{"name":"web"},"spec":{"replicas":2,"selector":{"matchLabels":{"app":"web"}},"template":` +
			`{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`, Want: "201 Deployment web"},
		{Send: "GET " + deployments + "/web/scale", Want: "200 Scale web"},
		{Send: "GET " + deployments + "/none/scale", Want: `404 deployments.apps "none" not found`},
		{Send: "PUT " + deployments + "/web/scale", Body: `{"metadata":{"name":"web"},"spec":{"replicas":3}}`, Want: "200 Scale web"},
		{Send: "PUT " + deployments + "/web/scale", Body: `{"metadata":{"name":"web"},"spec":{"replicas":-1}}`, Want: `422 ...`},
		{Send: "PUT " + deployments + "/web/scale", Body: `{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"web"}}`, Want: "400 ..."},
		{Send: "PUT " + deployments + "/web/scale?dryRun=1", Body: `{"metadata":{"name":"web"}}`, Want: `422 UpdateOptions.meta.k8s.io "" is invalid: ...`},
		{Send: "PATCH " + deployments + "/web/scale", Header: merge, Body: `{"spec":{"replicas":5}}`, Want: "200 Scale web"},
		{Send: "PATCH " + deployments + "/web/scale", Header: merge, Body: `{"spec":{"rocket":5}}`, Want: "200 Scale web",
			Warns: []string{`unknown field "spec.rocket"`}},
		{Send: "PATCH " + deployments + "/web/scale?fieldManager=m&force=1", Header: apply,
			Body: "{apiVersion: autoscaling/v1, kind: Scale, metadata: {name: web}, spec: {replicas: 7}}", Want: "200 Scale web"},
		{Send: "POST " + deployments + "/web/scale", Body: "{}", Want: "405 ..."},
		{Send: "DELETE " + deployments + "/web/scale", Want: "405 ..."},
		{Send: "GET /api/v1/namespaces/default/configmaps/one/scale", Want: "404 404 page not found"},
	})
	var scaled struct{ Spec struct{ Replicas int } }
	for _, path := range []string{"/web", "/web/scale"} {
		if err := json.NewDecoder(w.Send("GET "+deployments+path, "", "").Body).Decode(&scaled); err != nil || scaled.Spec.Replicas != 7 {
			t.Errorf("%s has %d replicas, %v", path, scaled.Spec.Replicas, err)
		}
	}
}
