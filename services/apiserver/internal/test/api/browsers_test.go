package api_test

import (
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/services/apiserver"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// TestOrigins sends what browsers send for the scripts of other origins.
func TestOrigins(t *testing.T) {
	t.Parallel()
	s := harness.StartWith(t, func(cfg *apiserver.Config) {
		cfg.Serving.AllowedOrigins = []string{`//example\.com(:|$)`, `^https://.*\.example\.org$`}
	})
	admin := s.Admin()
	for _, c := range []struct {
		name, method, path, origin string
		config                     *rest.Config
		code                       int
		allowed                    bool
	}{
		{"no browser", "GET", "/api/v1/nodes", "", admin, 200, false},
		{"allowed", "GET", "/api/v1/nodes", "https://example.com", admin, 200, true},
		{"allowed with a port", "GET", "/version", "http://example.com:8080", admin, 200, true},
		{"allowed subdomain", "GET", "/api/v1/nodes", "https://a.example.org", admin, 200, true},
		{"another", "GET", "/api/v1/nodes", "https://example.com.evil.org", admin, 200, false},
		{"an error", "GET", "/api/v1/nodes/x", "https://example.com", admin, 404, true},
		{"not authenticated", "GET", "/api/v1/nodes", "https://example.com", s.WithToken("wrong"), 401, true},
		{"before the request", "OPTIONS", "/api/v1/nodes", "https://example.com", s.WithToken("wrong"), 204, true},
		{"before the request of another", "OPTIONS", "/api/v1/nodes", "https://evil.org", s.WithToken("wrong"), 401, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			header := map[string]string{}
			if c.origin != "" {
				header["Origin"] = c.origin
			}
			res, body := s.Exchange(c.config, c.method, c.path, "", header)
			if res.StatusCode != c.code || c.code == http.StatusNoContent && body != "" {
				t.Errorf("got %s %s, want %d", res.Status, body, c.code)
			}
			want := map[string]string{
				"Access-Control-Allow-Origin": c.origin, "Access-Control-Allow-Credentials": "true", "Access-Control-Expose-Headers": "Date",
				"Access-Control-Allow-Methods": "POST, GET, OPTIONS, PUT, DELETE, PATCH",
				"Access-Control-Allow-Headers": "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, If-Modified-Since",
			}
			for name, value := range want {
				if got := res.Header.Get(name); c.allowed && got != value || !c.allowed && got != "" {
					t.Errorf("%s is %q", name, got)
				}
			}
		})
	}
}

// TestGoaway: an HTTP/2 client has to connect anew after about the configured fraction of requests.
func TestGoaway(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		chance float64
	}{{"never", 0}, {"at most", 0.02}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := harness.StartWith(t, func(cfg *apiserver.Config) { cfg.Serving.GoawayChance = c.chance })
			client, err := rest.HTTPClientFor(s.Admin())
			if err != nil {
				t.Fatal(err)
			}
			defer client.CloseIdleConnections()
			fresh := 0
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
				if !info.Reused {
					fresh++
				}
			}})
			const requests = 2000 // Without a new connection by chance: 0.98^2000, less than 10^-17.
			for range requests {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/livez", nil)
				if err != nil {
					t.Fatal(err)
				}
				res, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusOK || !strings.HasPrefix(res.Proto, "HTTP/2") {
					t.Fatalf("got %s %s, %v", res.Proto, res.Status, err)
				}
			}
			if again := fresh > 1; again != (c.chance > 0) || fresh > requests/5 {
				t.Errorf("%d connections for %d requests", fresh, requests)
			}
		})
	}
}
