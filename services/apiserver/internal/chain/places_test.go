package chain

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/services/apiserver/internal/authn"
	"github.com/garboard/garboard/services/apiserver/internal/authz"
)

// TestPlaces: who is served when all places are taken.
func TestPlaces(t *testing.T) {
	p := newPlaces(Limits{Reads: 1, Writes: 1})
	read, write := authz.Attributes{Verb: "list", Resource: "pods"}, authz.Attributes{Verb: "create", Resource: "pods"}
	user, admin := authn.User{Name: "alice"}, authn.User{Name: "root", Groups: []string{authn.GroupMasters}}
	leaveRead, ok := p.take(read, user, false)
	if !ok {
		t.Fatal("no place for the first")
	}
	for name, c := range map[string]struct {
		a    authz.Attributes
		user authn.User
		want bool
	}{
		"another that reads":                     {read, user, false},
		"one that asks how the server is":        {authz.Attributes{Verb: "get", Path: "/livez"}, user, false},
		"one that writes":                        {write, user, true},
		"an administrator":                       {read, admin, true},
		"a watch":                                {authz.Attributes{Verb: "watch", Resource: "pods"}, user, true},
		"a log":                                  {authz.Attributes{Verb: "get", Resource: "pods", Subresource: "log"}, user, true},
		"one that posts to what is no resource":  {authz.Attributes{Verb: "post", Path: "/x"}, user, true},
		"a path that looks like a long resource": {authz.Attributes{Verb: "get", Path: "/watch"}, user, false},
	} {
		leave, ok := p.take(c.a, c.user, isLong(c.a))
		if ok != c.want {
			t.Errorf("%s: %v", name, ok)
		}
		leave()
	}
	leaveRead()
	if _, ok := p.take(read, user, false); !ok {
		t.Error("no place after one was left")
	}
	for range 10 {
		if _, ok := newPlaces(Limits{Reads: -1}).take(read, user, false); !ok {
			t.Error("there is a bound where there is to be none")
		}
	}
}

// TestDroppedIsCounted, by what the request wanted.
func TestDroppedIsCounted(t *testing.T) {
	metrics := prometheus.NewRegistry()
	c := newChain(t, metrics, nil)
	c.places.writes <- struct{}{}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/livez", nil))
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if n := sum(t, metrics, "apiserver_dropped_requests_total", "mutating"); n != 1 {
		t.Errorf("counted %v", n)
	}
}

// TestNobodyKeepsHTTP2: as in Kubernetes.
func TestNobodyKeepsHTTP2(t *testing.T) {
	c := newChain(t, prometheus.NewRegistry(), func(http.ResponseWriter, *http.Request) {})
	c.Authenticator = authn.New(authn.Config{Tokens: []authn.Tokens{names{}}})
	for token, want := range map[string]string{"": "close", "old": "close", "alice": ""} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/livez", nil)
		r.ProtoMajor = 2
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		if c.ServeHTTP(w, r); w.Header().Get("Connection") != want {
			t.Errorf("%q: %v", token, w.Header())
		}
	}
}

// TestHandlersSeeNoCredentials: nor whom the user claims to act as.
func TestHandlersSeeNoCredentials(t *testing.T) {
	c := newChain(t, prometheus.NewRegistry(), func(_ http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"Authorization", "Impersonate-User", "X-Remote-User"} {
			if r.Header.Get(name) != "" {
				t.Errorf("%s is there", name)
			}
		}
		if user, ok := authn.UserFrom(r.Context()); !ok || user.Name != "bob" {
			t.Errorf("the user is %+v", user)
		}
	})
	c.Authenticator, c.Authorizer = authn.New(authn.Config{Tokens: []authn.Tokens{names{}}}), open{}
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/livez", nil)
	for name, value := range map[string]string{"Authorization": "Bearer alice", "Impersonate-User": "bob", "X-Remote-User": "root"} {
		r.Header.Set(name, value)
	}
	if c.ServeHTTP(w, r); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
