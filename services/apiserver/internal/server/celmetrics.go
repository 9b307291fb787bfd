package server

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/garboard/garboard/libs/metric"
)

// measureExpressions registers the metrics that Kubernetes' library keeps of the CEL rules of custom
// resources. They count for the whole process.
func (p *plane) measureExpressions() {
	metric.Register(p.cfg.Registerer, newForwarder(legacyregistry.DefaultGatherer, map[string]string{
		"apiserver_cel_compilation_duration_seconds": "CEL compilation time in seconds.",
		"apiserver_cel_evaluation_duration_seconds":  "CEL evaluation time in seconds.",
	}))
}

// forwarder exports some histograms of another registry, which have no labels.
type forwarder struct {
	from  prometheus.Gatherer
	descs map[string]*prometheus.Desc
}

// newForwarder returns a collector of the histograms with some names, each with its help.
func newForwarder(from prometheus.Gatherer, helps map[string]string) *forwarder {
	f := &forwarder{from: from, descs: map[string]*prometheus.Desc{}}
	for name, help := range helps {
		f.descs[name] = prometheus.NewDesc(name, help, nil, nil)
	}
	return f
}

// Describe implements prometheus.Collector.
func (f *forwarder) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range f.descs {
		descs <- desc
	}
}

// Collect implements prometheus.Collector.
func (f *forwarder) Collect(metrics chan<- prometheus.Metric) {
	families, err := f.from.Gather()
	if err != nil {
		for _, desc := range f.descs {
			metrics <- prometheus.NewInvalidMetric(desc, fmt.Errorf("gathering the metrics of expressions: %w", err))
		}
		return
	}
	for _, family := range families {
		desc := f.descs[family.GetName()]
		if desc == nil {
			continue
		}
		for _, m := range family.GetMetric() {
			metrics <- forwarded{desc: desc, histogram: m.GetHistogram()}
		}
	}
}

// forwarded is one histogram of another registry.
type forwarded struct {
	desc      *prometheus.Desc
	histogram *dto.Histogram
}

// Desc implements prometheus.Metric.
func (m forwarded) Desc() *prometheus.Desc { return m.desc }

// Write implements prometheus.Metric.
func (m forwarded) Write(out *dto.Metric) error {
	out.Histogram = m.histogram
	return nil
}
