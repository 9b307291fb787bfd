package token_test

import (
	"encoding/json"
	"testing"
	"time"

	"go.uber.org/goleak"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/rest/resttest"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestTokens issues tokens that are bound to different objects.
func TestTokens(t *testing.T) {
	w := resttest.New(t)
	const path = "POST " + resttest.Default + "serviceaccounts/default/token"
	w.Script([]resttest.Step{
		{Send: "POST " + resttest.Default + "pods", Body: `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`, Want: "201 Pod p"},
		{Send: "POST " + resttest.Default + "serviceaccounts", Body: `{"metadata":{"name":"robot"}}`, Want: "201 ServiceAccount robot"},
		{Send: path, Body: `{"spec":{"expirationSeconds":100}}`,
			Want: `422 TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 100: may not specify a duration less than 10 minutes`},
		{Send: path, Body: `{"spec":{"expirationSeconds":5000000000}}`, Want: `422 TokenRequest.authentication.k8s.io "" is invalid: ...`},
		{Send: path, Body: `{"metadata":{"name":"robot"}}`, Want: `422 TokenRequest.authentication.k8s.io "default" is invalid: metadata.name: Invalid value: "robot": ` +
			`must match the service account name if specified`},
		{Send: path, Body: `{"metadata":{"namespace":"other"}}`, Want: "400 the namespace of the provided object does not match the namespace sent on the request"},
		{Send: path, Body: `{"metadata":{"uid":"other"}}`, Want: `409 Operation cannot be fulfilled on TokenRequest.authentication.k8s.io "default": ` +
			`the UID in the token request (other) does not match ...`},
		{Send: "POST " + resttest.Default + "serviceaccounts/none/token", Body: `{}`, Want: `404 serviceaccounts "none" not found`},
		{Send: path, Body: `{"spec":{"boundObjectRef":{"kind":"ConfigMap","apiVersion":"v1","name":"c"}}}`, Want: "400 cannot bind token to object of type /v1, Kind=ConfigMap"},
		{Send: path, Body: `{"spec":{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"none"}}}`, Want: `404 pods "none" not found`},
		{Send: path, Body: `{"spec":{"boundObjectRef":{"kind":"Node","apiVersion":"v1","name":"none"}}}`, Want: `404 nodes "none" not found`},
		{Send: path, Body: `{"spec":{"boundObjectRef":{"kind":"Secret","apiVersion":"v1","name":"none"}}}`, Want: `404 secrets "none" not found`},
		{Send: path, Body: `{"spec":{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"p","uid":"other"}}}`, Want: `409 ...`},
		{Send: "POST " + resttest.Default + "serviceaccounts/robot/token", Body: `{"spec":{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"p"}}}`,
			Want: `400 cannot bind token for serviceaccount "robot" to pod running with different serviceaccount name.`},
		{Send: path + "?dryRun=none", Body: `{}`, Want: `422 CreateOptions.meta.k8s.io "" is invalid: ...`},
		{Send: "GET " + resttest.Default + "serviceaccounts/default/token", Want: "405 ..."},
	})
	for _, c := range []struct {
		name, body string
		life       time.Duration
		audience   string
		warned     bool
	}{
		{"the defaults", `{}`, time.Hour, "the-api", false},
		{"for another audience", `{"spec":{"audiences":["vault"],"expirationSeconds":600}}`, 10 * time.Minute, "vault", false},
		{"for too long", `{"spec":{"expirationSeconds":100000}}`, 2 * time.Hour, "the-api", true},
		{"of a pod", `{"spec":{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"p"}}}`, time.Hour, "the-api", false},
	} {
		r := w.Send(path, "", c.body)
		var answer authenticationv1.TokenRequest
		if err := json.NewDecoder(r.Body).Decode(&answer); err != nil || r.StatusCode != 201 {
			t.Fatalf("%s: %s, %v", c.name, r.Status, err)
		}
		life := time.Until(answer.Status.ExpirationTimestamp.Time)
		if answer.Status.Token == "" || answer.Name != "default" || answer.Namespace != "default" || life > c.life || life < c.life-time.Minute {
			t.Errorf("%s: got %+v, which lives for %v", c.name, answer, life)
		}
		if len(answer.Spec.Audiences) != 1 || answer.Spec.Audiences[0] != c.audience || *answer.Spec.ExpirationSeconds != int64(c.life/time.Second) {
			t.Errorf("%s: got %+v", c.name, answer.Spec)
		}
		if warned := r.Header.Get("Warning") != ""; warned != c.warned {
			t.Errorf("%s: the warning is %q", c.name, r.Header.Get("Warning"))
		}
	}
}

// TestOtherKinds checks that the token of an object of another kind is not that of the service account
// with its name: its caller may do nothing to service accounts.
func TestOtherKinds(t *testing.T) {
	w := resttest.New(t)
	robot := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Robot"}
	if err := w.Catalog.Install(&kinds.Definition{Kind: &scheme.Kind{
		GroupVersionKind: robot, Resource: "robots", Singular: "robot", Namespaced: true, Custom: true, Storage: robot,
		StoragePrefix: "example.com/robots",
		Subresources: []scheme.Subresource{{
			Name: "token", Kind: authenticationv1.SchemeGroupVersion.WithKind("TokenRequest"), Verbs: []string{"create"}, Virtual: true,
		}},
	}}); err != nil {
		t.Fatal(err)
	}
	w.Script([]resttest.Step{
		{Send: "POST /apis/example.com/v1/namespaces/default/robots/default/token", Body: `{}`, Want: "405 ..."},
		{Send: "POST " + resttest.Default + "serviceaccounts/default/token", Body: `{}`, Want: "201 TokenRequest default"},
	})
}

// TestBoundToSecret issues a token that ends with a secret, and none for a secret that was made anew.
func TestBoundToSecret(t *testing.T) {
	w := resttest.New(t)
	const path = "POST " + resttest.Default + "serviceaccounts/default/token"
	w.Script([]resttest.Step{
		{Send: "POST " + resttest.Default + "secrets", Body: `{"metadata":{"name":"s"}}`, Want: "201 Secret s"},
		{Send: path, Body: `{"spec":{"boundObjectRef":{"kind":"Secret","apiVersion":"v1","name":"s"}}}`, Want: "201 TokenRequest default"},
		{Send: path, Body: `{"spec":{"boundObjectRef":{"kind":"Secret","apiVersion":"v1","name":"s","uid":"of-before"}}}`, Want: "409 ..."},
		{Send: "DELETE " + resttest.Default + "secrets/s", Want: "200 Status secrets s"},
		{Send: path, Body: `{"spec":{"boundObjectRef":{"kind":"Secret","apiVersion":"v1","name":"s"}}}`, Want: `404 secrets "s" not found`},
	})
}
