package ops_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/services/apiserver/internal/ops"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHealth(t *testing.T) {
	good := ops.Check{Name: "ping", Run: func(context.Context) error { return nil }}
	bad := ops.Check{Name: "etcd", Run: func(context.Context) error { return errors.New("secret address") }}
	h := &ops.Health{Path: "/readyz", Checks: []ops.Check{good, bad}, Logger: slog.New(slog.DiscardHandler)}
	for path, want := range map[string]struct {
		code int
		body string
	}{
		"/readyz":                      {500, "[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed\n"},
		"/readyz?exclude=etcd":         {200, "ok"},
		"/readyz?exclude=etcd&verbose": {200, "[+]ping ok\n[+]etcd excluded: ok\nreadyz check passed\n"},
		"/readyz/ping":                 {200, "ok"},
		"/readyz/etcd":                 {500, "internal server error: secret address\n"},
		"/readyz/none":                 {404, "404 page not found\n"},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != want.code || w.Body.String() != want.body {
			t.Errorf("%s: %d %q, want %d %q", path, w.Code, w.Body, want.code, want.body)
		}
	}
}

func TestVersion(t *testing.T) {
	v := ops.Version()
	if v.Major != "1" || !strings.HasPrefix(v.GitVersion, "v1."+v.Minor+".") || !strings.HasSuffix(v.GitVersion, "+garboard") || v.Platform == "" {
		t.Errorf("the version is %+v", v)
	}
}
