// Package resourcemetrics serves what the node, its pods and their containers use as metrics, under the names of
// the kubelet's /metrics/resource and /metrics/cadvisor.
package resourcemetrics

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// emit sends a metric.
type emit func(prometheus.Metric)

// reading is a collector for one request. It describes nothing in advance, since what there is depends on what
// the runtime reports.
type reading struct {
	ctx     context.Context //nolint:containedctx // a Collector has none
	collect func(ctx context.Context, to emit)
}

// Describe sends nothing.
func (reading) Describe(chan<- *prometheus.Desc) {}

// Collect sends the metrics.
func (r reading) Collect(to chan<- prometheus.Metric) {
	r.collect(r.ctx, func(m prometheus.Metric) { to <- m })
}

// handler serves what collect emits. Each request reads anew, and ends with its context.
func handler(collect func(ctx context.Context, to emit), logger *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		registry := prometheus.NewRegistry()
		registry.MustRegister(reading{r.Context(), collect})
		// Two pods of one name, of which one is ending, have the same labels: the rest is served.
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{
			ErrorHandling: promhttp.ContinueOnError, ErrorLog: quietly{logger},
		}).ServeHTTP(w, r)
	})
}

// quietly logs for the library.
type quietly struct{ logger *slog.Logger }

// Println implements promhttp.Logger.
func (q quietly) Println(values ...any) {
	q.logger.Debug("gathering metrics failed in part", "err", values)
}

// seconds converts a time to seconds since 1970.
func seconds(at time.Time) float64 { return float64(at.UnixNano()) / float64(time.Second) }

// core converts nanoseconds of one core to seconds.
func core(nanoseconds uint64) float64 { return float64(nanoseconds) / float64(time.Second) }
