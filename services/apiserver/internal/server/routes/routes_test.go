package routes_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/server/routes"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHealth(t *testing.T) {
	good := routes.Check{Name: "ping", Run: func(context.Context) error { return nil }}
	bad := routes.Check{Name: "etcd", Run: func(context.Context) error { return errors.New("secret address") }}
	h := &routes.Health{Path: "/readyz", Checks: []routes.Check{good, bad}, Logger: slog.New(slog.DiscardHandler)}
	for path, want := range map[string]struct {
		code int
		body string
	}{
		"/readyz":                      {500, "[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed\n"},
		"/readyz?exclude=etcd":         {200, "ok"},
		"/readyz?exclude=etcd&verbose": {200, "[+]ping ok\n[+]etcd excluded: ok\nreadyz check passed\n"},
		"/readyz/ping":                 {200, "ok"},
		"/readyz/etcd":                 {500, "internal server error: reason withheld\n"},
		"/readyz/none":                 {404, "404 page not found\n"},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != want.code || w.Body.String() != want.body {
			t.Errorf("%s: got %d %q, want %d %q", path, w.Code, w.Body, want.code, want.body)
		}
	}
}

// TestReasons: authenticated users, and clients on the server's own machine, learn why a check
// fails.
func TestReasons(t *testing.T) {
	bad := routes.Check{Name: "etcd", Run: func(context.Context) error { return errors.New("etcd at x does not answer:\nrefused") }}
	h := &routes.Health{Path: "/readyz", Checks: []routes.Check{bad}, Logger: slog.New(slog.DiscardHandler)}
	const told, withheld = "etcd at x does not answer: refused", "reason withheld"
	known, anonymous := authn.User{Name: "alice", Groups: []string{"system:authenticated"}}, authn.User{Name: "system:anonymous", Groups: []string{"system:unauthenticated"}}
	for name, c := range map[string]struct {
		from string
		user *authn.User
		want string
	}{
		"anonymous":             {"192.0.2.1:1", &anonymous, withheld},
		"no user":               {"192.0.2.1:1", nil, withheld},
		"anonymous, over NATS":  {"", &anonymous, withheld},
		"an authenticated user": {"192.0.2.1:1", &known, told},
		"local":                 {"127.0.0.1:1", &anonymous, told},
		"local, over IPv6":      {"[::1]:1", &anonymous, told},
	} {
		for path, want := range map[string]string{
			"/readyz?verbose": "[-]etcd failed: " + c.want + "\nreadyz check failed\n",
			"/readyz":         "[-]etcd failed: " + c.want + "\nreadyz check failed\n",
			"/readyz/etcd":    "internal server error: " + c.want + "\n",
		} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.RemoteAddr = c.from
			if c.user != nil {
				r = r.WithContext(authn.WithUser(r.Context(), *c.user))
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != http.StatusInternalServerError || w.Body.String() != want {
				t.Errorf("%s, %s: got %d %q, want %q", name, path, w.Code, w.Body, want)
			}
		}
	}
}

func TestVersion(t *testing.T) {
	v := routes.Version()
	if v.Major != "1" || !strings.HasPrefix(v.GitVersion, "v1."+v.Minor+".") || !strings.HasSuffix(v.GitVersion, "+garboard") || v.Platform == "" {
		t.Errorf("got version %+v", v)
	}
}
