package filters

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/snapshot"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

func TestIsLong(t *testing.T) {
	for name, c := range map[string]struct {
		a    authz.Attributes
		want bool
	}{
		"a list":                                 {authz.Attributes{Verb: "list", Resource: "pods"}, false},
		"a watch":                                {authz.Attributes{Verb: "watch", Resource: "pods"}, true},
		"a log":                                  {authz.Attributes{Verb: "get", Resource: "pods", Subresource: "log"}, true},
		"a status":                               {authz.Attributes{Verb: "get", Resource: "pods", Subresource: "status"}, false},
		"a profile":                              {authz.Attributes{Verb: "get", Path: "/debug/pprof/profile"}, true},
		"a snapshot":                             {authz.Attributes{Verb: "get", Path: snapshot.Path}, true},
		"the schemas":                            {authz.Attributes{Verb: "get", Path: "/openapi/v2"}, false},
		"a path that looks like a long resource": {authz.Attributes{Verb: "get", Path: "/watch"}, false},
	} {
		if got := isLong(c.a); got != c.want {
			t.Errorf("%s: %t", name, got)
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

// takeAll takes places until there is none, and returns how many there were.
func takeAll(l limits, a authz.Attributes, user authn.User) int {
	for n := 0; ; n++ {
		if _, ok := l.take(a, user); !ok || n > 1000 {
			return n
		}
	}
}

// TestShares: how many places there are for whom, one after the other.
func TestShares(t *testing.T) {
	type taker struct {
		name string
		a    authz.Attributes
		user authn.User
		want int
	}
	stranger := func(n int) authn.User { return authn.User{Name: fmt.Sprintf("stranger%d", n)} }
	for name, takers := range map[string][]taker{
		"strangers leave what is reserved": {
			{"the first", list, stranger(1), 40}, {"the second", list, stranger(2), 40}, {"the third", list, stranger(3), 10}, {"the fourth", list, stranger(4), 0},
			{"a node", list, node1, 5}, {"another node", list, node2, 5},
			{"the scheduler", list, scheduler, 40}, {"an account of the system", list, dns, 0},
			{"a leader", renew, scheduler, 25}, {"a read of a leader's lease", authz.Attributes{Verb: "get", Group: "coordination.k8s.io", Resource: "leases"}, scheduler, 10},
			{"one who writes", create, stranger(1), 20},
		},
		"a node takes what is open, too": {
			{"a node", list, node1, 45}, {"another node", list, node2, 45}, {"one of the rest", list, alice, 10},
		},
		"no lease of a stranger or a node is a leader's": {
			{"a stranger", renew, alice, 20}, {"another", renew, stranger(1), 20}, {"a third", renew, stranger(2), 5}, {"a fourth", renew, stranger(3), 0},
			{"a node", renew, node1, 2}, {"a leader", renew, scheduler, 5}, {"the same of its own", create, scheduler, 20},
		},
	} {
		l := newLimits(Limits{Reads: 160, Writes: 80})
		for _, c := range takers {
			if got := takeAll(l, c.a, c.user); got != c.want {
				t.Errorf("%s: %s gets %d places, want %d", name, c.name, got, c.want)
			}
		}
		probe := authz.Attributes{Verb: "get", Path: "/readyz"}
		if takeAll(l, list, admin) < 1000 || takeAll(l, create, admin) < 1000 || takeAll(l, probe, alice) < 1000 {
			t.Errorf("%s: an administrator, or a probe, is bounded", name)
		}
	}
}

// TestPlacesAreGivenBack: where they were taken.
func TestPlacesAreGivenBack(t *testing.T) {
	l := newLimits(Limits{Reads: 16, Writes: 16})
	for range 100 {
		for _, user := range []authn.User{alice, node1, scheduler} {
			var all []func()
			for range 5 {
				if leave, ok := l.take(list, user); ok {
					all = append(all, leave)
				}
			}
			if len(all) < 4 {
				t.Fatalf("%s gets %d places", user.Name, len(all))
			}
			for _, leave := range all {
				leave()
			}
		}
	}
}

func TestNoShares(t *testing.T) {
	if n := takeAll(newLimits(Limits{Reads: 7, NoShares: true}), list, alice); n != 7 {
		t.Errorf("one user gets %d places", n)
	}
	if n := takeAll(newLimits(Limits{Reads: -1}), list, alice); n < 1000 {
		t.Errorf("%d places where there is to be no bound", n)
	}
	for _, few := range []int{1, 2, 3} {
		if n := takeAll(newLimits(Limits{Reads: few}), list, alice); n != 1 {
			t.Errorf("of %d places one user gets %d", few, n)
		}
	}
}

// TestDroppedIsCounted, by what the request wanted.
func TestDroppedIsCounted(t *testing.T) {
	metrics := prometheus.NewRegistry()
	c := newChain(t, metrics, nil)
	c.limits = newLimits(Limits{Writes: 1})
	if _, ok := c.limits.take(create, alice); !ok {
		t.Fatal("no place for the first")
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/livez", nil))
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if n := sum(t, metrics, "apiserver_dropped_requests_total", "mutating"); n != 1 {
		t.Errorf("counted %v", n)
	}
	if n := sum(t, metrics, "apiserver_request_terminations_total", "429", "POST"); n != 1 {
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
