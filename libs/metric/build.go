package metric

import (
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// OfProcess returns a registry with the metrics that every process has: those of the Go runtime and
// of the process itself, and its build.
func OfProcess(version string) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	Build(registry, version)
	return registry
}

// Build exports the running build as garboard_build_info: the program's version, the version of
// Kubernetes' API types that it was built with, and Go's version.
func Build(registerer prometheus.Registerer, version string) {
	kubernetes := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range info.Deps {
			if dependency.Path == "k8s.io/api" {
				kubernetes = dependency.Version
			}
		}
	}
	Register(registerer, prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "garboard_build_info", Help: "1, with what the program was built from as labels.",
	}, []string{"version", "kubernetes", "go_version"})).WithLabelValues(version, kubernetes, runtime.Version()).Set(1)
}
