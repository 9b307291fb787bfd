package filters

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/nodeapi"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/snapshot"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

func TestIsLong(t *testing.T) {
	table := scheme.New()
	for name, c := range map[string]struct {
		a    authz.Attributes
		want bool
	}{
		"a list":                                 {authz.Attributes{Verb: "list", Resource: "pods"}, false},
		"a watch":                                {authz.Attributes{Verb: "watch", Resource: "pods"}, true},
		"a log":                                  {authz.Attributes{Verb: "get", Version: "v1", Resource: "pods", Subresource: "log"}, true},
		"a status":                               {authz.Attributes{Verb: "get", Version: "v1", Resource: "pods", Subresource: "status"}, false},
		"a log of what has none":                 {authz.Attributes{Verb: "get", Version: "v1", Resource: "nodes", Subresource: "log"}, false},
		"a log of an unknown kind":               {authz.Attributes{Verb: "get", Version: "v2", Resource: "pods", Subresource: "log"}, false},
		"a proxy path":                           {authz.Attributes{Verb: "proxy", Version: "v1", Resource: "nodes"}, true},
		"a profile":                              {authz.Attributes{Verb: "get", Path: "/debug/pprof/profile"}, true},
		"a tunnel to the API":                    {authz.Attributes{Verb: "get", Path: nodeapi.TunnelPath}, true},
		"a snapshot":                             {authz.Attributes{Verb: "get", Path: snapshot.Path}, true},
		"the OpenAPI schema":                     {authz.Attributes{Verb: "get", Path: "/openapi/v2"}, false},
		"a path that looks like a long resource": {authz.Attributes{Verb: "get", Path: "/watch"}, false},
	} {
		if got := isLong(table, c.a); got != c.want {
			t.Errorf("%s: got %t, want %t", name, got, c.want)
		}
	}
}

// TestSessionsAreCounted: what carries a stream from elsewhere takes a place among the sessions, tunnels too.
func TestSessionsAreCounted(t *testing.T) {
	for path, want := range map[string]bool{nodeapi.TunnelPath: true, snapshot.Path: false, "/debug/pprof/profile": false} {
		if got := isSession(authz.Attributes{Verb: "get", Path: path}); got != want {
			t.Errorf("%s: got %t, want %t", path, got, want)
		}
	}
}

// Requests and users of the tests below.
var (
	list      = authz.Attributes{Verb: "list", Resource: "pods"}
	create    = authz.Attributes{Verb: "create", Resource: "pods"}
	renew     = authz.Attributes{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Name: "l"}
	alice     = authn.User{Name: "alice"}
	admin     = authn.User{Name: "root", Groups: []string{authn.GroupMasters}}
	node1     = authn.User{Name: "system:node:n1", Groups: []string{authn.GroupNodes}}
	node2     = authn.User{Name: "system:node:n2", Groups: []string{authn.GroupNodes}}
	scheduler = authn.User{Name: "system:kube-scheduler"}
	dns       = authn.User{Name: "system:serviceaccount:kube-system:dns"}
)

// takeAll takes slots until none is left, and returns their number.
func takeAll(l limits, a authz.Attributes, user authn.User) int {
	for n := 0; ; n++ {
		if _, ok := l.acquire(a, user); !ok || n > 1000 {
			return n
		}
	}
}

// TestShares checks how many slots each user gets, one user after the other.
func TestShares(t *testing.T) {
	type taker struct {
		name string
		a    authz.Attributes
		user authn.User
		want int
	}
	stranger := func(n int) authn.User { return authn.User{Name: fmt.Sprintf("stranger%d", n)} }
	for name, takers := range map[string][]taker{
		"strangers leave the reserved slots": {
			{"a stranger", list, stranger(1), 40}, {"a second stranger", list, stranger(2), 40}, {"a third stranger", list, stranger(3), 10}, {"a fourth stranger", list, stranger(4), 0},
			{"a node", list, node1, 5}, {"another node", list, node2, 5},
			{"the scheduler", list, scheduler, 40}, {"a system service account", list, dns, 0},
			{"a leader's renewal", renew, scheduler, 25}, {"a read of a leader's lease", authz.Attributes{Verb: "get", Group: "coordination.k8s.io", Resource: "leases"}, scheduler, 10},
			{"a stranger's write", create, stranger(1), 20},
		},
		"a node takes unreserved slots, too": {
			{"a node", list, node1, 45}, {"another node", list, node2, 45}, {"an ordinary user", list, alice, 10},
		},
		"leases of strangers and nodes are not a leader's": {
			{"a stranger", renew, alice, 20}, {"a second stranger", renew, stranger(1), 20}, {"a third stranger", renew, stranger(2), 5}, {"a fourth stranger", renew, stranger(3), 0},
			{"a node", renew, node1, 2}, {"a leader", renew, scheduler, 5}, {"a leader's other write", create, scheduler, 20},
		},
	} {
		l := newLimits(Limits{Reads: 160, Writes: 80})
		for _, c := range takers {
			if got := takeAll(l, c.a, c.user); got != c.want {
				t.Errorf("%s: %s gets %d slots, want %d", name, c.name, got, c.want)
			}
		}
		probe := authz.Attributes{Verb: "get", Path: "/readyz"}
		if takeAll(l, list, admin) < 1000 || takeAll(l, create, admin) < 1000 || takeAll(l, probe, alice) < 1000 {
			t.Errorf("%s: an administrator, or a probe, is bounded", name)
		}
	}
}

// TestSlotsAreGivenBack: slots return to the pool that they were taken from.
func TestSlotsAreGivenBack(t *testing.T) {
	l := newLimits(Limits{Reads: 16, Writes: 16})
	for range 100 {
		for _, user := range []authn.User{alice, node1, scheduler} {
			var all []func()
			for range 5 {
				if leave, ok := l.acquire(list, user); ok {
					all = append(all, leave)
				}
			}
			if len(all) < 4 {
				t.Fatalf("%s gets %d slots, want at least 4", user.Name, len(all))
			}
			for _, leave := range all {
				leave()
			}
		}
	}
}

func TestNoShares(t *testing.T) {
	if n := takeAll(newLimits(Limits{Reads: 7, NoShares: true}), list, alice); n != 7 {
		t.Errorf("one user gets %d slots, want 7", n)
	}
	if n := takeAll(newLimits(Limits{Reads: -1}), list, alice); n < 1000 {
		t.Errorf("got %d slots without a bound, want 1000 and more", n)
	}
	for _, few := range []int{1, 2, 3} {
		if n := takeAll(newLimits(Limits{Reads: few}), list, alice); n != 1 {
			t.Errorf("with %d slots in all, one user gets %d, want 1", few, n)
		}
	}
}

// TestSessions checks which long-running requests need a slot, and how many one user gets.
func TestSessions(t *testing.T) {
	c := newChain(t, prometheus.NewRegistry(), nil)
	c.limits = newLimits(Limits{Reads: 1, Writes: 1, Sessions: 8})
	take := func(a authz.Attributes, user authn.User) (got int) {
		for ; got < 20; got++ {
			if _, ok := (&request{Chain: c, wants: a, user: user, long: true}).slot(); !ok {
				break
			}
		}
		return got
	}
	exec := authz.Attributes{Verb: "create", Resource: "pods", Subresource: "exec", Name: "p"}
	stranger := authn.User{Name: "stranger"}
	for _, one := range []struct {
		name string
		a    authz.Attributes
		user authn.User
		want int
	}{
		{"one user's sessions", exec, alice, 2},
		{"an administrator's", exec, admin, 20},
		{"watches", authz.Attributes{Verb: "watch", Resource: "pods"}, alice, 20},
		{"profiles", authz.Attributes{Verb: "get", Path: "/debug/pprof/profile"}, alice, 20},
		{"another's proxies", authz.Attributes{Verb: "get", Resource: "pods", Subresource: "proxy", Name: "p"}, stranger, 2},
		{"proxies of Kubernetes' old form", authz.Attributes{Verb: "proxy", Resource: "nodes", Name: "n"}, scheduler, 2},
		{"a node's logs", authz.Attributes{Verb: "get", Resource: "pods", Subresource: "log", Name: "p"}, node1, 2},
		{"what comes when there are no slots", exec, node2, 0},
	} {
		if got := take(one.a, one.user); got != one.want {
			t.Errorf("%s: got %d slots, want %d", one.name, got, one.want)
		}
	}
	for name, cfg := range map[string]Limits{"no limit": {}, "no shares": {Sessions: 20, NoShares: true}} {
		c.limits = newLimits(cfg)
		if got := take(exec, alice); got != 20 {
			t.Errorf("%s: got %d slots, want 20", name, got)
		}
	}
	metrics := prometheus.NewRegistry()
	c = newChain(t, metrics, nil)
	c.limits = newLimits(Limits{Sessions: 1})
	c.limits.sessions.open.TryAcquire("somebody")
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/api/v1/namespaces/n/pods/p/exec", nil))
	if n := sum(t, metrics, "apiserver_dropped_requests_total", "session"); w.Code != http.StatusTooManyRequests || n != 1 {
		t.Errorf("got %d, and counted %v dropped sessions, want 429 and 1", w.Code, n)
	}
}

// TestDroppedIsCounted: refused requests are counted, by kind and by operation.
func TestDroppedIsCounted(t *testing.T) {
	metrics := prometheus.NewRegistry()
	c := newChain(t, metrics, nil)
	c.limits = newLimits(Limits{Writes: 1})
	if _, ok := c.limits.acquire(create, alice); !ok {
		t.Fatal("no slot for the first")
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/livez", nil))
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" {
		t.Errorf("got %d %v, want 429", w.Code, w.Header())
	}
	if n := sum(t, metrics, "apiserver_dropped_requests_total", "mutating"); n != 1 {
		t.Errorf("counted %v dropped requests, want 1", n)
	}
	if n := sum(t, metrics, "apiserver_request_terminations_total", "429", "POST"); n != 1 {
		t.Errorf("counted %v terminations, want 1", n)
	}
}

// TestNobodyKeepsHTTP2: unauthenticated clients may not keep an HTTP/2 connection, as in
// Kubernetes.
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
			t.Errorf("token %q: got header %v", token, w.Header())
		}
	}
}

// TestHandlersSeeNoCredentials: handlers see neither credentials nor impersonation headers.
func TestHandlersSeeNoCredentials(t *testing.T) {
	c := newChain(t, prometheus.NewRegistry(), func(_ http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"Authorization", "Impersonate-User", "X-Remote-User"} {
			if r.Header.Get(name) != "" {
				t.Errorf("the handler sees the header %s", name)
			}
		}
		if user, ok := authn.UserFrom(r.Context()); !ok || user.Name != "bob" {
			t.Errorf("got user %+v, want bob", user)
		}
	})
	c.Authenticator, c.Authorizer = authn.New(authn.Config{Tokens: []authn.Tokens{names{}}}), open{}
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/livez", nil)
	for name, value := range map[string]string{"Authorization": "Bearer alice", "Impersonate-User": "bob", "X-Remote-User": "root"} {
		r.Header.Set(name, value)
	}
	if c.ServeHTTP(w, r); w.Code != http.StatusOK {
		t.Errorf("got %d %s, want 200", w.Code, w.Body)
	}
}
