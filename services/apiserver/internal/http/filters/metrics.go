package filters

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/rest"
)

// Metrics counts requests under the metric names of kube-apiserver.
type Metrics struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inflight *prometheus.GaugeVec
	long     *prometheus.GaugeVec
	events   *prometheus.CounterVec
	dropped  *prometheus.CounterVec
	ended    *prometheus.CounterVec
	aborts   *prometheus.CounterVec
	attempts *prometheus.CounterVec
	authTime *prometheus.HistogramVec
	removal  *removal
}

// NewMetrics creates and registers the metrics of the kinds of a table.
func NewMetrics(registerer prometheus.Registerer, table *scheme.Table) *Metrics {
	what := []string{"verb", "group", "version", "resource", "subresource", "scope", "component"}
	m := &Metrics{
		removal: newRemoval(table),
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_request_total", Help: "Requests served, by operation and HTTP status code.",
		}, append([]string{"code", "dry_run"}, what...)),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_request_duration_seconds", Help: "Time to serve a request in seconds, without watches and logs.",
			Buckets: []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60},
		}, append([]string{"dry_run"}, what...)),
		inflight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_current_inflight_requests", Help: "Requests in flight, without long-running ones.",
		}, []string{"request_kind"}),
		long: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_longrunning_requests", Help: "Long-running requests in flight, such as watches and logs.",
		}, what),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_watch_events_total", Help: "Events sent to watches over HTTP.",
		}, []string{"group", "version", "resource"}),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_dropped_requests_total", Help: "Requests refused with 429, because too many were in flight: readOnly, mutating, or session.",
		}, []string{"request_kind"}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_request_terminations_total", Help: "Requests that the server ended to protect itself, by the HTTP status code of the response.",
		}, append([]string{"code"}, what...)),
		aborts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_request_aborts_total", Help: "Requests that timed out after their response had begun, or whose client did not read it.",
		}, what[:len(what)-1]),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "authentication_attempts", Help: "Requests by the result of their authentication.",
		}, []string{"result"}),
		authTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "authentication_duration_seconds", Help: "Time to authenticate a request in seconds.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}, []string{"result"}),
	}
	registerer.MustRegister(m.total, m.duration, m.inflight, m.long, m.events, m.dropped, m.ended, m.aborts, m.attempts, m.authTime)
	return m
}

// Sent counts an event sent to a watch.
func (m *Metrics) Sent(kind *scheme.Kind) {
	m.events.WithLabelValues(kind.Group, kind.Version, kind.Resource).Inc()
	m.counted(kind.Group, kind.Version, kind.Resource)
}

// drop counts a request that was turned away.
func (m *Metrics) drop(kind string, what []string) {
	m.dropped.WithLabelValues(kind).Inc()
	m.terminated(what, http.StatusTooManyRequests)
}

func (m *Metrics) terminated(what []string, code int) {
	m.ended.WithLabelValues(append([]string{strconv.Itoa(code)}, what...)...).Inc()
}

// timedOut counts a request that missed its deadline. code is the status code of its response.
func (m *Metrics) timedOut(what []string, code int) {
	if code == http.StatusGatewayTimeout {
		m.terminated(what, code)
		return
	}
	m.aborts.WithLabelValues(what[:len(what)-1]...).Inc()
}

// authenticated counts the result of an authentication. A failure is a request without a
// credential.
func (m *Metrics) authenticated(ok bool, err error, took time.Duration) {
	result := "failure"
	switch {
	case err != nil:
		result = "error"
	case ok:
		result = "success"
	}
	m.attempts.WithLabelValues(result).Inc()
	m.authTime.WithLabelValues(result).Observe(took.Seconds())
}

// begin counts the start of a request; the returned function counts its end.
func (m *Metrics) begin(r *http.Request, what []string, long bool) func(code int, took time.Duration) {
	m.forget()
	dryRun := r.URL.Query().Get("dryRun")
	if dryRun != "" {
		dryRun = "All" // A client must not be able to create labels.
	}
	var running prometheus.Gauge
	switch {
	case long:
		running = m.long.WithLabelValues(what...)
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		running = m.inflight.WithLabelValues("readOnly")
	default:
		running = m.inflight.WithLabelValues("mutating")
	}
	running.Inc()
	return func(code int, took time.Duration) {
		running.Dec()
		m.total.WithLabelValues(append([]string{strconv.Itoa(code), dryRun}, what...)...).Inc()
		if !long {
			m.duration.WithLabelValues(append([]string{dryRun}, what...)...).Observe(took.Seconds())
		}
		m.counted(what[1], what[2], what[3])
	}
}

// labels returns the labels for a request's operation: verb, group, version, resource, subresource,
// scope and component.
func labels(r *http.Request, target rest.Request, isResource bool) []string {
	if !isResource {
		subresource := ""
		for _, path := range []string{"/livez", "/readyz", "/healthz", "/version", "/metrics", "/statusz", "/flagz", "/api", "/openapi/v2", "/openapi/v3", "/debug", "/.well-known/openid-configuration", "/openid/v1/jwks"} {
			if r.URL.Path == path || strings.HasPrefix(r.URL.Path, path+"/") {
				subresource = path
			}
		}
		if r.URL.Path == "/apis" || strings.HasPrefix(r.URL.Path, "/apis/") {
			subresource = "/apis"
		}
		return []string{method(r), "", "", "", subresource, "", "apiserver"}
	}
	verb := strings.ToUpper(target.Verb)
	switch target.Verb {
	case "create":
		verb = "POST"
	case "update":
		verb = "PUT"
	case "":
		verb = method(r)
	}
	scope := "cluster"
	switch {
	case target.Name != "":
		scope = "resource"
	case target.Namespace != "":
		scope = "namespace"
	}
	return []string{verb, target.Kind.Group, target.Kind.Version, target.Kind.Resource, target.Subresource, scope, "apiserver"}
}

// method returns the request's method if HTTP defines it, else OTHER.
func method(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return r.Method
	}
	return "OTHER"
}
