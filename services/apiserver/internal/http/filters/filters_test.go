package filters

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
	"github.com/garboard/garboard/services/apiserver/internal/http/rest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const maxReads = 3

// health allows every user the health checks, and nothing else.
type health struct{}

func (health) Authorize(_ context.Context, _ authn.User, a authz.Attributes) (authz.Decision, string, error) {
	if a.Path == "/livez" || a.Path == "/livez/ping" || a.Path == "/readyz" {
		return authz.Allow, "", nil
	}
	return authz.NoOpinion, "", nil
}

// newChain returns a chain in front of other, which serves /livez without a credential.
func newChain(t testing.TB, metrics prometheus.Registerer, other http.HandlerFunc) *Chain {
	t.Helper()
	table, log := scheme.New(), slog.New(slog.DiscardHandler)
	encoder := response.New(table, log)
	parts := map[rest.Part]rest.Serve{}
	for _, kind := range table.Kinds() {
		for _, s := range kind.Subresources {
			if s.Special(kind) {
				parts[rest.Part{Subresource: s.Name, Kind: s.Kind}] = func(*rest.Call) error { return errors.New("not served here") }
			}
		}
	}
	api, err := rest.New(rest.Config{Table: table, Encoder: encoder, Parts: parts, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	return New(Config{
		API: api, Other: other, Authenticator: authn.New(authn.Config{}), Authorizer: health{}, Encoder: encoder, Logger: log,
		Metrics: NewMetrics(metrics, table), Limits: Limits{Reads: maxReads, Writes: 1, NoShares: true},
	})
}

func get(c *Chain, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

// sum adds up the values of one metric over all label sets that have the given values.
func sum(t *testing.T, gatherer prometheus.Gatherer, name string, values ...string) float64 {
	t.Helper()
	families, err := gatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	total := 0.0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			found := 0
			for _, label := range metric.GetLabel() {
				if slices.Contains(values, label.GetValue()) {
					found++
				}
			}
			if found == len(values) {
				total += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
			}
		}
	}
	return total
}

func TestPanicIsAnswered(t *testing.T) {
	metrics := prometheus.NewRegistry()
	c := newChain(t, metrics, func(http.ResponseWriter, *http.Request) { panic("a bug") })
	w := get(c, "/livez")
	var status metav1.Status
	if err := json.Unmarshal(w.Body.Bytes(), &status); err != nil || w.Code != 500 || status.Reason != metav1.StatusReasonInternalError ||
		!strings.Contains(status.Message, w.Header().Get("Audit-Id")) || strings.Contains(status.Message, "a bug") {
		t.Errorf("got %d %s, %v", w.Code, w.Body, err)
	}
	if n := sum(t, metrics, "apiserver_request_total", "500", "GET", "/livez"); n != 1 {
		t.Errorf("counted %v requests, want 1", n)
	}
	if n := sum(t, metrics, "apiserver_current_inflight_requests"); n != 0 {
		t.Errorf("%v requests are still in flight, want 0", n)
	}
}

// TestPanicCutsAnswerShort: a response that has begun when the handler panics must not look
// complete.
func TestPanicCutsAnswerShort(t *testing.T) {
	c := newChain(t, prometheus.NewRegistry(), func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, "half of")
		panic("a bug")
	})
	server := httptest.NewServer(c)
	defer server.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/livez", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := server.Client().Do(req)
	if err == nil {
		_, err = io.ReadAll(res.Body)
		_ = res.Body.Close()
	}
	if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		t.Errorf("the client read the response to its end: %v", err)
	}
}

func TestTooManyInFlight(t *testing.T) {
	enter, leave := make(chan struct{}), make(chan struct{})
	c := newChain(t, prometheus.NewRegistry(), func(http.ResponseWriter, *http.Request) {
		enter <- struct{}{}
		<-leave
	})
	done := make(chan struct{})
	for range maxReads {
		go func() {
			get(c, "/livez/ping")
			done <- struct{}{}
		}()
	}
	for range maxReads {
		<-enter
	}
	w := get(c, "/livez/ping")
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" {
		t.Errorf("one request too many: got %d %v, want 429", w.Code, w.Header())
	}
	close(leave)
	for range maxReads {
		<-done
	}
	go func() { <-enter }()
	if w := get(c, "/livez/ping"); w.Code != http.StatusOK {
		t.Errorf("after the others have finished: got %d, want 200", w.Code)
	}
}

func TestRefusals(t *testing.T) {
	c := newChain(t, prometheus.NewRegistry(), func(http.ResponseWriter, *http.Request) { t.Error("a refused request was served") })
	if w := get(c, "/metrics"); w.Code != http.StatusForbidden {
		t.Errorf("anonymous at /metrics: got %d, want 403", w.Code)
	}
	if w := get(c, "/api/v1/pods"); w.Code != http.StatusForbidden {
		t.Errorf("anonymous at /api/v1/pods: got %d, want 403", w.Code)
	}
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/livez", nil)
	r.Header.Set("Authorization", "Bearer wrong")
	if c.ServeHTTP(w, r); w.Code != http.StatusUnauthorized {
		t.Errorf("an invalid token: got %d, want 401", w.Code)
	}
}
