package authz_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.uber.org/goleak"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
	"github.com/garboard/garboard/services/apiserver/internal/http/rest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// says is an authorizer that always returns the same.
type says struct {
	decision authz.Decision
	reason   string
	err      error
}

func (s says) Authorize(context.Context, authn.User, authz.Attributes) (authz.Decision, string, error) {
	return s.decision, s.reason, s.err
}

func (s says) Rules(context.Context, authn.User, string) ([]authorizationv1.ResourceRule, []authorizationv1.NonResourceRule, bool, error) {
	return []authorizationv1.ResourceRule{{Verbs: []string{s.reason}}}, nil, s.reason == "some", s.err
}

// TestUnion: the first decision counts; without one, all reasons are returned.
func TestUnion(t *testing.T) {
	nothing, wrong := says{}, errors.New("wrong")
	for name, c := range map[string]struct {
		union  authz.Union
		want   authz.Decision
		reason string
		err    bool
	}{
		"empty":                  {union: authz.Union{}},
		"undecided":              {union: authz.Union{nothing, says{reason: "a"}, nothing, says{reason: "b"}}, reason: "a\nb"},
		"allowed":                {union: authz.Union{says{reason: "a"}, says{decision: authz.Allow, reason: "b"}}, want: authz.Allow, reason: "b"},
		"allowed, then denied":   {union: authz.Union{says{decision: authz.Allow}, says{decision: authz.Deny}}, want: authz.Allow},
		"denied, then allowed":   {union: authz.Union{says{decision: authz.Deny, reason: "x"}, says{decision: authz.Allow}}, want: authz.Deny, reason: "x"},
		"an error":               {union: authz.Union{says{err: wrong}, nothing}, err: true},
		"allowed after an error": {union: authz.Union{says{err: wrong}, says{decision: authz.Allow}}, want: authz.Allow},
	} {
		decision, reason, err := c.union.Authorize(t.Context(), authn.User{}, authz.Attributes{})
		if decision != c.want || reason != c.reason || (err != nil) != c.err {
			t.Errorf("%s: got %v, %q, %v, want %v, %q", name, decision, reason, err, c.want, c.reason)
		}
	}
	resources, _, incomplete, err := authz.Union{says{reason: "a"}, authz.Masters{}, says{reason: "some", err: wrong}}.Rules(t.Context(), authn.User{}, "x")
	if len(resources) != 2 || !incomplete || err == nil || err.Error() != "wrong" {
		t.Errorf("got rules %v, incomplete %v, %v", resources, incomplete, err)
	}
}

func TestMasters(t *testing.T) {
	for _, user := range []authn.User{
		{Name: "root", Groups: []string{"system:authenticated", "system:masters"}},
		{Name: "system:masters", Groups: []string{"system:authenticated"}},
	} {
		decision, _, _ := authz.Masters{}.Authorize(t.Context(), user, authz.Attributes{Verb: "delete", Resource: "nodes"})
		if want := user.Name == "root"; (decision == authz.Allow) != want || decision == authz.Deny {
			t.Errorf("%v: got decision %v, want allowed %v", user, decision, want)
		}
	}
}

// TestRefusals: a refusal has Kubernetes' words.
func TestRefusals(t *testing.T) {
	user := authn.User{Name: "u"}
	for want, c := range map[string]struct {
		a      authz.Attributes
		reason string
	}{
		`pods is forbidden: User "u" cannot list resource "pods" in API group "" in the namespace "x"`: {
			a: authz.Attributes{Verb: "list", Resource: "pods", Namespace: "x"}},
		`pods "p" is forbidden: User "u" cannot get resource "pods/log" in API group "" in the namespace "x"`: {
			a: authz.Attributes{Verb: "get", Resource: "pods", Subresource: "log", Namespace: "x", Name: "p"}},
		`deployments.apps is forbidden: User "u" cannot list resource "deployments" in API group "apps" at the cluster scope`: {
			a: authz.Attributes{Verb: "list", Group: "apps", Resource: "deployments"}},
		`namespaces "x" is forbidden: User "u" cannot get resource "namespaces" in API group "" in the namespace "x"`: {
			a: authz.Attributes{Verb: "get", Resource: "namespaces", Namespace: "x", Name: "x"}},
		`nodes "n" is forbidden: User "u" cannot get resource "nodes" in API group "" at the cluster scope: why`: {
			a: authz.Attributes{Verb: "get", Resource: "nodes", Name: "n"}, reason: "why"},
		`forbidden: User "u" cannot get path "/metrics"`:                {a: authz.Attributes{Verb: "get", Path: "/metrics"}},
		`forbidden: User "u" cannot post path "/&lt;b&gt;&amp;": <why>`: {a: authz.Attributes{Verb: "post", Path: "/<b>&"}, reason: "<why>"},
	} {
		err := authz.Check(t.Context(), says{reason: c.reason}, user, c.a)
		if !apierrors.IsForbidden(err) || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	if err := authz.Check(t.Context(), says{err: errors.New("x")}, user, authz.Attributes{}); !apierrors.IsInternalError(err) {
		t.Errorf("an undecided request: got %v, want an internal error", err)
	}
	if err := authz.Check(t.Context(), says{decision: authz.Allow, err: errors.New("x")}, user, authz.Attributes{}); err != nil {
		t.Error(err)
	}
}

// TestFromRequest: attributes are read from a request's path as Kubernetes reads them.
func TestFromRequest(t *testing.T) {
	for _, c := range []struct {
		method, url string
		want        authz.Attributes
		demands     string // of its selectors
	}{
		{method: "GET", url: "/healthz", want: authz.Attributes{Verb: "get", Path: "/healthz", NonResource: true}},
		{method: "POST", url: "/", want: authz.Attributes{Verb: "post", Path: "/", NonResource: true}},
		{method: "GET", url: "/api/v1", want: authz.Attributes{Verb: "get", Path: "/api/v1", NonResource: true}},
		{method: "GET", url: "/apis/apps/v1", want: authz.Attributes{Verb: "get", Path: "/apis/apps/v1", NonResource: true}},
		{method: "GET", url: "/api/v1/watch", want: authz.Attributes{Verb: "get", Path: "/api/v1/watch", NonResource: true}},
		{method: "GET", url: "/api/v1/pods", want: authz.Attributes{Verb: "list", Version: "v1", Resource: "pods"}},
		{method: "HEAD", url: "/api/v1/pods/", want: authz.Attributes{Verb: "list", Version: "v1", Resource: "pods"}},
		{method: "GET", url: "/api/v1/pods?watch=1", want: authz.Attributes{Verb: "watch", Version: "v1", Resource: "pods"}},
		{method: "GET", url: "/api/v1/pods?watch", want: authz.Attributes{Verb: "watch", Version: "v1", Resource: "pods"}},
		{method: "GET", url: "/api/v1/pods?watch=False", want: authz.Attributes{Verb: "list", Version: "v1", Resource: "pods"}},
		{method: "GET", url: "/api/v1/watch/namespaces/x/pods", want: authz.Attributes{Verb: "watch", Version: "v1", Resource: "pods", Namespace: "x"}},
		{method: "GET", url: "/api/v1/watch/namespaces/x/pods/p", want: authz.Attributes{Verb: "watch", Version: "v1", Resource: "pods", Namespace: "x", Name: "p"}},
		{method: "GET", url: "/api/v1/namespaces/x/pods/p?watch=1", want: authz.Attributes{Verb: "get", Version: "v1", Resource: "pods", Namespace: "x", Name: "p"}},
		{method: "POST", url: "/api/v1/namespaces/x/pods", want: authz.Attributes{Verb: "create", Version: "v1", Resource: "pods", Namespace: "x"}},
		{method: "POST", url: "/api/v1/namespaces/x/pods/p/binding", want: authz.Attributes{Verb: "create", Version: "v1", Resource: "pods", Subresource: "binding", Namespace: "x", Name: "p"}},
		{method: "PUT", url: "/apis/apps/v1/namespaces/x/deployments/d/scale", want: authz.Attributes{Verb: "update", Group: "apps", Version: "v1", Resource: "deployments", Subresource: "scale", Namespace: "x", Name: "d"}},
		{method: "PATCH", url: "/api/v1/nodes/n/status", want: authz.Attributes{Verb: "patch", Version: "v1", Resource: "nodes", Subresource: "status", Name: "n"}},
		{method: "DELETE", url: "/api/v1/nodes/n", want: authz.Attributes{Verb: "delete", Version: "v1", Resource: "nodes", Name: "n"}},
		{method: "DELETE", url: "/api/v1/namespaces/x/pods", want: authz.Attributes{Verb: "deletecollection", Version: "v1", Resource: "pods", Namespace: "x"}},
		{method: "GET", url: "/api/v1/namespaces", want: authz.Attributes{Verb: "list", Version: "v1", Resource: "namespaces"}},
		{method: "GET", url: "/api/v1/namespaces/x", want: authz.Attributes{Verb: "get", Version: "v1", Resource: "namespaces", Namespace: "x", Name: "x"}},
		{method: "PUT", url: "/api/v1/namespaces/x/finalize", want: authz.Attributes{Verb: "update", Version: "v1", Resource: "namespaces", Subresource: "finalize", Namespace: "x", Name: "x"}},
		{method: "GET", url: "/apis/nobody.knows/v9/things", want: authz.Attributes{Verb: "list", Group: "nobody.knows", Version: "v9", Resource: "things"}},
		{method: "OPTIONS", url: "/api/v1/pods", want: authz.Attributes{Version: "v1", Resource: "pods"}},
		// Listing one object by its name is a request for that object.
		{method: "GET", url: "/api/v1/namespaces/x/secrets?fieldSelector=metadata.name%3Ds", demands: "metadata.name=s",
			want: authz.Attributes{Verb: "list", Version: "v1", Resource: "secrets", Namespace: "x", Name: "s"}},
		{method: "GET", url: "/api/v1/namespaces/x/secrets?watch=1&fieldSelector=metadata.name%3D..", demands: "metadata.name=..",
			want: authz.Attributes{Verb: "watch", Version: "v1", Resource: "secrets", Namespace: "x"}},
		{method: "GET", url: "/api/v1/pods?fieldSelector=spec.nodeName%3Dn&labelSelector=a%3Db", demands: "spec.nodeName=n a=b",
			want: authz.Attributes{Verb: "list", Version: "v1", Resource: "pods"}},
		{method: "DELETE", url: "/api/v1/namespaces/x/pods?labelSelector=a%3Db", demands: "a=b",
			want: authz.Attributes{Verb: "deletecollection", Version: "v1", Resource: "pods", Namespace: "x"}},
		{method: "GET", url: "/api/v1/watch/pods?labelSelector=a%3Db", want: authz.Attributes{Verb: "watch", Version: "v1", Resource: "pods"}},
		{method: "GET", url: "/api/v1/namespaces/x/pods/p?labelSelector=a%3Db", want: authz.Attributes{Verb: "get", Version: "v1", Resource: "pods", Namespace: "x", Name: "p"}},
	} {
		got := authz.FromRequest(httptest.NewRequest(c.method, c.url, nil))
		demands := ""
		for _, demand := range got.Fields {
			demands += " " + demand.Field + string(demand.Operator) + demand.Value
		}
		for _, demand := range got.Labels {
			demands += " " + demand.String()
		}
		if demands != "" {
			demands = demands[1:]
		}
		got.Fields, got.Labels = nil, nil
		if !same(got, c.want) || demands != c.demands {
			t.Errorf("%s %s:\ngot  %+v %s\nwant %+v %s", c.method, c.url, got, demands, c.want, c.demands)
		}
	}
	got := authz.FromRequest(httptest.NewRequest(http.MethodGet, "/api/v1/pods?fieldSelector=x&labelSelector=,%2C!!", nil))
	if got.FieldsErr == nil || got.LabelsErr == nil {
		t.Errorf("malformed selectors: got errors %v, %v", got.FieldsErr, got.LabelsErr)
	}
}

func same(a, b authz.Attributes) bool {
	return a.Verb == b.Verb && a.Path == b.Path && a.NonResource == b.NonResource && a.Group == b.Group && a.Version == b.Version &&
		a.Resource == b.Resource && a.Subresource == b.Subresource && a.Namespace == b.Namespace && a.Name == b.Name
}

// FuzzFromRequest: the target that is served is the one that was authorized.
func FuzzFromRequest(f *testing.F) {
	for _, path := range []string{
		"/api/v1/namespaces/x/pods/p/status", "/apis/apps/v1/namespaces/x/deployments", "/api/v1/watch/nodes/n",
		"/api/v1/namespaces/status/finalize", "/api/v1//pods", "/api/v1/namespaces/namespaces/x", "/apis//v1/pods/x",
		"/api/v1/proxy/pods/x", "/api/v1/namespaces/x/finalize/y",
	} {
		f.Add(path, "GET", "")
		f.Add(path, "POST", "watch=1")
	}
	table := scheme.New()
	f.Fuzz(func(t *testing.T, path, method, query string) {
		r := &http.Request{Method: method}
		if parsed, err := http.NewRequest(http.MethodGet, "http://h/", nil); err == nil { //nolint:noctx // It is not sent.
			r.URL = parsed.URL
		}
		r.URL.Path, r.URL.RawQuery = path, query
		target, ok := rest.ParsePath(table, path)
		got := authz.FromRequest(r)
		if !ok {
			return
		}
		namespace := target.Namespace
		if target.Kind.Resource == "namespaces" {
			namespace = target.Name
		}
		if !got.IsResource() || got.Group != target.Kind.Group || got.Version != target.Kind.Version || got.Resource != target.Kind.Resource ||
			got.Subresource != target.Subresource || got.Namespace != namespace || target.Name != "" && got.Name != target.Name {
			t.Errorf("%s: %+v is served, %+v was authorized", path, target, got)
		}
		if verb := target.Verb(method, r.URL.Query().Has("watch")); verb != "" && query == "" && verb != got.Verb {
			t.Errorf("%s %s: %s is served, %s was authorized", method, path, verb, got.Verb)
		}
	})
}
