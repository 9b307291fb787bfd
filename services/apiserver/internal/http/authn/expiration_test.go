package authn

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TestCertificateExpiration checks that each request with a certificate observes its remaining
// lifetime: the first one, for which it is verified, and those that use the cached result.
func TestCertificateExpiration(t *testing.T) {
	authority := newAuthority(t)
	cert := authority.client(t, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(3 * time.Hour) })
	registry := prometheus.NewRegistry()
	authorities, err := NewAuthorities(authority.cert, "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	a := New(Config{ClientCAs: authorities, Registerer: registry})
	for range 2 {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}
		if _, ok, err := a.Authenticate(r); !ok || err != nil {
			t.Fatalf("authenticating with a certificate: %v, %v", ok, err)
		}
	}
	if _, ok, err := a.Authenticate(httptest.NewRequest(http.MethodGet, "/", nil)); !ok || err != nil {
		t.Fatalf("authenticating without a credential: %v, %v", ok, err)
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "apiserver_client_certificate_expiration_seconds" {
		t.Fatalf("got metrics %v, %v", families, err)
	}
	for _, bucket := range families[0].GetMetric()[0].GetHistogram().GetBucket() {
		want := uint64(0)
		if bucket.GetUpperBound() >= 3*3600 {
			want = 2
		}
		if bucket.GetCumulativeCount() != want {
			t.Errorf("%d requests with at most %v s left, want %d", bucket.GetCumulativeCount(), bucket.GetUpperBound(), want)
		}
	}
}
