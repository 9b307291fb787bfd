package forward

import (
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/metric"
)

// metrics are those of CoreDNS' plugins cache and forward, with their names and labels.
type metrics struct {
	hitsPositive, hitsNegative, asked, misses, prefetched, stale, rejected, allDown prometheus.Counter

	evicted, failedProbes *prometheus.CounterVec
	took                  *prometheus.HistogramVec
}

// Values of labels: CoreDNS distinguishes its servers, views and zones by them.
const (
	positive = "success"
	negative = "denial"
	proxy    = "forward"
	allZones = "."
)

func newMetrics(registerer prometheus.Registerer, server string, counts func() (positive, negative int)) *metrics {
	constant := prometheus.Labels{"server": server, "zones": allZones, "view": ""}
	counter := func(name, help string, labels prometheus.Labels) prometheus.Counter {
		return metric.Register(registerer, prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels}))
	}
	hits := metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "coredns_cache_hits_total", Help: "Questions that the cache answered, by the type of the answer.", ConstLabels: constant,
	}, []string{"type"}))
	m := &metrics{
		hitsPositive: hits.WithLabelValues(positive), hitsNegative: hits.WithLabelValues(negative),
		asked:      counter("coredns_cache_requests_total", "Questions to the cache.", constant),
		misses:     counter("coredns_cache_misses_total", "Questions that the cache could not answer.", constant),
		prefetched: counter("coredns_cache_prefetch_total", "Answers that were renewed before they expired.", constant),
		stale:      counter("coredns_cache_served_stale_total", "Questions answered with expired answers.", constant),
		rejected: counter("coredns_forward_max_concurrent_rejects_total",
			"Questions not forwarded because too many were in flight.", nil),
		allDown: counter("coredns_forward_healthcheck_broken_total", "Questions forwarded although no server is healthy.", nil),
		evicted: metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coredns_cache_evictions_total", Help: "Answers dropped from the cache to make room.", ConstLabels: constant,
		}, []string{"type"})),
		failedProbes: metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coredns_proxy_healthcheck_failures_total", Help: "Failed health checks, by server.",
		}, []string{"proxy_name", "to"})),
		took: metric.Register(registerer, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "coredns_proxy_request_duration_seconds", Help: "Time until a server answered, by server and code.",
			Buckets: prometheus.ExponentialBuckets(0.00025, 2, 16),
		}, []string{"proxy_name", "to", "rcode"})),
	}
	for kind, count := range map[string]func() float64{
		positive: func() float64 { n, _ := counts(); return float64(n) },
		negative: func() float64 { _, n := counts(); return float64(n) },
	} {
		labels := prometheus.Labels{"type": kind, "server": server, "zones": allZones, "view": ""}
		metric.Register(registerer, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "coredns_cache_entries", Help: "Answers in the cache.", ConstLabels: labels,
		}, count))
	}
	return m
}

// observe records an answer of a server.
func (m *metrics) observe(to string, rcode int, took time.Duration) {
	code, ok := dns.RcodeToString[rcode]
	if !ok {
		code = "other"
	}
	m.took.WithLabelValues(proxy, to, code).Observe(took.Seconds())
}

// hit records that the cache has answered.
func (m *metrics) hit(denial bool) {
	if denial {
		m.hitsNegative.Inc()
	} else {
		m.hitsPositive.Inc()
	}
}

func typeOf(denial bool) string {
	if denial {
		return negative
	}
	return positive
}
