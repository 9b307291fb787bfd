package filters

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
	"github.com/garboard/garboard/services/apiserver/internal/http/rest"
)

// Metrics counts requests, under kube-apiserver's names.
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
}

// NewMetrics makes the metrics and registers them.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	what := []string{"verb", "group", "version", "resource", "subresource", "scope", "component"}
	m := &Metrics{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_request_total", Help: "Requests answered, by what they wanted and their HTTP status code.",
		}, append([]string{"code", "dry_run"}, what...)),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_request_duration_seconds", Help: "Time to answer a request in seconds, watches and logs left out.",
			Buckets: []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60},
		}, append([]string{"dry_run"}, what...)),
		inflight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_current_inflight_requests", Help: "Requests in work, those that last left out.",
		}, []string{"request_kind"}),
		long: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_longrunning_requests", Help: "Watches and logs in work.",
		}, what),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_watch_events_total", Help: "Events sent to watches over HTTP.",
		}, []string{"group", "version", "resource"}),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_dropped_requests_total", Help: "Requests held back with 429, since too many were in work.",
		}, []string{"request_kind"}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_request_terminations_total", Help: "Requests that the server ended to protect itself, by the HTTP status code that it answered.",
		}, append([]string{"code"}, what...)),
		aborts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_request_aborts_total", Help: "Requests that took too long after their answer had begun, or whose client did not read it.",
		}, what[:len(what)-1]),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "authentication_attempts", Help: "Requests by what became of their authentication.",
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
}

// drop counts a request that was held back.
func (m *Metrics) drop(wants authz.Attributes, what []string) {
	kind := "mutating"
	if isRead(wants) {
		kind = "readOnly"
	}
	m.dropped.WithLabelValues(kind).Inc()
	m.terminated(what, http.StatusTooManyRequests)
}

func (m *Metrics) terminated(what []string, code int) {
	m.ended.WithLabelValues(append([]string{strconv.Itoa(code)}, what...)...).Inc()
}

// timedOut counts a request that did not end in time, whose answer has this code.
func (m *Metrics) timedOut(what []string, code int) {
	if code == http.StatusGatewayTimeout {
		m.terminated(what, code)
		return
	}
	m.aborts.WithLabelValues(what[:len(what)-1]...).Inc()
}

// authenticated counts what became of an authentication. A failure is one without a credential.
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

// begin counts a request that begins; what it gives counts its end.
func (m *Metrics) begin(r *http.Request, what []string, long bool) func(code int, took time.Duration) {
	dryRun := r.URL.Query().Get("dryRun")
	if dryRun != "" {
		dryRun = "All" // Whatever a client sends must not become a label.
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
	}
}

// labels are those that say what a request wanted: verb, group, version, resource,
// subresource, scope and component.
func labels(r *http.Request, target rest.Request, isResource bool) []string {
	if !isResource {
		subresource := ""
		for _, path := range []string{"/livez", "/readyz", "/healthz", "/version", "/metrics", "/api", "/openapi/v2", "/openapi/v3", "/debug", "/.well-known/openid-configuration", "/openid/v1/jwks"} {
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

// method is the request's, if it is one of HTTP's.
func method(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return r.Method
	}
	return "OTHER"
}
