package client

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/metric"
)

// Measured returns a copy of config whose requests are counted in rest_client_requests_total and
// timed in rest_client_request_duration_seconds until the response header arrives. These are the
// metrics of client-go in a Kubernetes process. So each watch and each log counts once, when it
// opens.
func Measured(config *rest.Config, registerer prometheus.Registerer) *rest.Config {
	total := metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rest_client_requests_total", Help: "Number of HTTP requests, partitioned by status code, method, and host.",
	}, []string{"code", "method", "host"}))
	duration := metric.Register(registerer, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "rest_client_request_duration_seconds", Help: "Request latency in seconds. Broken down by verb, and host.",
		Buckets: []float64{0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0},
	}, []string{"verb", "host"}))
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &measurer{next, total, duration} })
	return config
}

type measurer struct {
	next     http.RoundTripper
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// RoundTrip executes a request and counts it. A request without a response has the code <error>.
func (m *measurer) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	answer, err := m.next.RoundTrip(r)
	code := "<error>"
	if err == nil {
		code = strconv.Itoa(answer.StatusCode)
	}
	m.total.WithLabelValues(code, r.Method, r.URL.Host).Inc()
	m.duration.WithLabelValues(r.Method, r.URL.Host).Observe(time.Since(began).Seconds())
	return answer, err
}

// WrappedRoundTripper lets client-go find the underlying transport, for example to close its idle
// connections.
func (m *measurer) WrappedRoundTripper() http.RoundTripper { return m.next }
