package filters

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
)

// BenchmarkRequest measures the cost of deadlines and shares for a request that does nothing.
func BenchmarkRequest(b *testing.B) {
	for name, change := range map[string]func(*Chain){
		"neither":   func(c *Chain) { c.Timeout, c.limits = -1, newLimits(Limits{Reads: 400, Writes: 200, NoShares: true}) },
		"deadlines": func(c *Chain) { c.limits = newLimits(Limits{Reads: 400, Writes: 200, NoShares: true}) },
		"shares":    func(c *Chain) { c.Timeout, c.limits = -1, newLimits(Limits{Reads: 400, Writes: 200}) },
		"both":      func(c *Chain) { c.limits = newLimits(Limits{Reads: 400, Writes: 200}) },
	} {
		c := newChain(b, prometheus.NewRegistry(), func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
		c.Authenticator, c.Authorizer = authn.New(authn.Config{Tokens: []authn.Tokens{names{}}}), open{}
		change(c)
		for _, major := range []string{"HTTP/1.1", "HTTP/2.0"} {
			b.Run(name+"/"+major, func(b *testing.B) {
				server := httptest.NewUnstartedServer(c)
				server.EnableHTTP2 = major == "HTTP/2.0"
				server.StartTLS()
				defer server.Close()
				client := server.Client()
				b.ReportAllocs()
				for b.Loop() {
					r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, server.URL+"/version", nil)
					if err != nil {
						b.Fatal(err)
					}
					r.Header.Set("Authorization", "Bearer alice")
					res, err := client.Do(r)
					if err != nil {
						b.Fatal(err)
					}
					if res.Proto != major || res.StatusCode != http.StatusOK {
						b.Fatal(res.Proto, res.Status)
					}
					_ = res.Body.Close()
				}
			})
		}
	}
}
