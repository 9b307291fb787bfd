package proxy

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/metric"
	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
)

// metrics has kube-proxy's names.
type metrics struct {
	duration, full, partial *prometheus.HistogramVec
	programming             *prometheus.HistogramVec
	lastSync, lastQueued    *prometheus.GaugeVec
	noLocal                 *prometheus.GaugeVec
	failures, cleanup       *prometheus.CounterVec
	flowsDuration           *prometheus.HistogramVec
	flowsEnded              *prometheus.CounterVec

	endpointChanges, serviceChanges  prometheus.Counter
	endpointsPending, servicePending prometheus.Gauge
}

const (
	familyLabel = "ip_family"
	policyLabel = "traffic_policy"
)

func newMetrics(registerer prometheus.Registerer) *metrics {
	r := registering{registerer}
	short := prometheus.ExponentialBuckets(0.001, 2, 15)
	// The buckets of the service level objective on network programming: up to 5 minutes.
	long := slices.Concat(
		prometheus.LinearBuckets(0.25, 0.25, 2), prometheus.LinearBuckets(1, 1, 59),
		prometheus.LinearBuckets(60, 5, 12), prometheus.LinearBuckets(120, 30, 7))
	return &metrics{
		duration:      r.histogram("sync_proxy_rules_duration_seconds", "Duration of a sync of the packet rules.", short),
		full:          r.histogram("sync_full_proxy_rules_duration_seconds", "Duration of a sync that compared all rules with the kernel.", short),
		partial:       r.histogram("sync_partial_proxy_rules_duration_seconds", "Duration of a sync of what has changed.", short),
		programming:   r.histogram("network_programming_duration_seconds", "Time from a change of a pod to the rules that follow it.", long),
		lastSync:      r.gauges("sync_proxy_rules_last_timestamp_seconds", "Time of the last successful sync.", familyLabel),
		lastQueued:    r.gauges("sync_proxy_rules_last_queued_timestamp_seconds", "Time at which a sync was last asked for.", familyLabel),
		noLocal:       r.gauges("sync_proxy_rules_no_local_endpoints_total", "Service ports with traffic policy Local and no endpoints here.", policyLabel, familyLabel),
		failures:      r.counters("sync_proxy_rules_nftables_sync_failures_total", "Transactions that the kernel refused."),
		cleanup:       r.counters("sync_proxy_rules_nftables_cleanup_failures_total", "Deletions of unused chains that the kernel refused."),
		flowsDuration: r.histogram("conntrack_reconciler_sync_duration_seconds", "Duration of ending stale UDP connections.", short),
		flowsEnded:    r.counters("conntrack_reconciler_deleted_entries_total", "Stale UDP connections that were ended."),

		endpointChanges:  r.counter("sync_proxy_rules_endpoint_changes_total", "Changes of EndpointSlices."),
		serviceChanges:   r.counter("sync_proxy_rules_service_changes_total", "Changes of Services."),
		endpointsPending: r.gauge("sync_proxy_rules_endpoint_changes_pending", "Services with changes of EndpointSlices that no rules follow yet."),
		servicePending:   r.gauge("sync_proxy_rules_service_changes_pending", "Changed Services that no rules follow yet."),
	}
}

// registering registers metrics with kube-proxy's prefix.
type registering struct{ prometheus.Registerer }

const prefix = "kubeproxy_"

func (r registering) histogram(name, help string, buckets []float64) *prometheus.HistogramVec {
	opts := prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: buckets}
	return metric.Register(r.Registerer, prometheus.NewHistogramVec(opts, []string{familyLabel}))
}

func (r registering) counters(name, help string) *prometheus.CounterVec {
	opts := prometheus.CounterOpts{Name: prefix + name, Help: help}
	return metric.Register(r.Registerer, prometheus.NewCounterVec(opts, []string{familyLabel}))
}

func (r registering) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return metric.Register(r.Registerer, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + name, Help: help}, labels))
}

func (r registering) counter(name, help string) prometheus.Counter {
	return metric.Register(r.Registerer, prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + name, Help: help}))
}

func (r registering) gauge(name, help string) prometheus.Gauge {
	return metric.Register(r.Registerer, prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + name, Help: help}))
}

func (m *metrics) changed(from source) {
	if from&ofService != 0 {
		m.serviceChanges.Inc()
	}
	if from&ofSlices != 0 {
		m.endpointChanges.Inc()
	}
}

func (m *metrics) pending(from source, by float64) {
	if from&ofService != 0 {
		m.servicePending.Add(by)
	}
	if from&ofSlices != 0 {
		m.endpointsPending.Add(by)
	}
}

func (m *metrics) nonePending() {
	m.servicePending.Set(0)
	m.endpointsPending.Set(0)
}

// synced records a sync of a family that began at start.
func (m *metrics) synced(f ruleset.Family, start time.Time, all bool) {
	took := time.Since(start).Seconds()
	m.duration.WithLabelValues(f.String()).Observe(took)
	if all {
		m.full.WithLabelValues(f.String()).Observe(took)
	} else {
		m.partial.WithLabelValues(f.String()).Observe(took)
	}
}

func seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }
