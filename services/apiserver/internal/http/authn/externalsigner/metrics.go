package externalsigner

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/garboard/garboard/libs/metric"
)

// metrics have kube-apiserver's names.
type metrics struct {
	lastFetch, dataTime prometheus.Gauge
	fetches, signed     *prometheus.CounterVec
	duration            *prometheus.HistogramVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return metric.Register(registerer, prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help}))
	}
	counter := func(name, help string) *prometheus.CounterVec {
		return metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"code"}))
	}
	return &metrics{
		lastFetch: gauge("apiserver_externaljwt_fetch_keys_success_timestamp", "Time when the keys of the signer of service account tokens were last fetched, in seconds since 1970."),
		dataTime:  gauge("apiserver_externaljwt_fetch_keys_data_timestamp", "Time of the keys that the signer of service account tokens sent last, in seconds since 1970."),
		fetches:   counter("apiserver_externaljwt_fetch_keys_request_total", "Attempts to fetch the keys of the signer of service account tokens, by gRPC code."),
		signed:    counter("apiserver_externaljwt_sign_request_total", "Attempts to have a service account token signed by another process, by gRPC code."),
		duration: metric.Register(registerer, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_externaljwt_request_duration_seconds", Help: "Time of calls of the signer of service account tokens in seconds.",
			Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"method", "code"})),
	}
}

// observe is an interceptor of gRPC that measures calls.
func (m *metrics) observe(
	ctx context.Context, method string, request, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	started := time.Now()
	err := invoke(ctx, method, request, answer, conn, options...)
	m.duration.WithLabelValues(method, code(err)).Observe(time.Since(started).Seconds())
	return err
}

// fetched counts an attempt to fetch keys, which were of the given time.
func (m *metrics) fetched(err error, of time.Time) {
	m.fetches.WithLabelValues(code(err)).Inc()
	if err == nil {
		m.lastFetch.SetToCurrentTime()
		m.dataTime.Set(float64(of.UnixNano()) / 1e9)
	}
}

// code returns the label of how a call ended.
func code(err error) string {
	var answered interface{ GRPCStatus() *status.Status }
	switch {
	case err == nil:
		return codes.OK.String()
	case errors.As(err, &answered):
		return answered.GRPCStatus().Code().String()
	default:
		return "unknown-non-grpc"
	}
}
