package attachdetach

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/metric"
	"github.com/garboard/garboard/services/controllers/internal/podclaims"
)

// metrics are the metrics of the controller, under Kubernetes' names.
type metrics struct {
	forced    *prometheus.CounterVec
	durations *prometheus.HistogramVec
}

func newMetrics(registerer prometheus.Registerer, r *reconciler) *metrics {
	metric.Register(registerer, counts{r})
	return &metrics{
		forced: metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "attach_detach_controller_attachdetach_controller_forced_detaches",
			Help: "Volumes that were detached though their node did not say that it had unmounted them.",
		}, []string{"reason"})),
		durations: metric.Register(registerer, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "storage_operation_duration_seconds", Help: "How long attaching and detaching volumes took.",
			Buckets: []float64{.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600},
		}, []string{"volume_plugin", "operation_name", "status", "migrated"})),
	}
}

// operated notes the end of an operation that succeeded.
func (m *metrics) operated(driver string, a *attachment) { m.ended(driver, a, "success") }

// failed notes the end of one that did not.
func (m *metrics) failed(driver string, a *attachment) { m.ended(driver, a, "fail-unknown") }

func (m *metrics) ended(driver string, a *attachment, status string) {
	if !a.operation.running {
		return // A failed one was overtaken by its success.
	}
	migrated := a.source != nil && a.source.migrated
	m.durations.WithLabelValues(pluginOf(driver), a.operation.kind, status, strconv.FormatBool(migrated)).
		Observe(time.Since(a.operation.began).Seconds())
}

// pluginOf is how metrics name a driver.
func pluginOf(driver string) string { return plugin + ":" + driver }

var (
	totalVolumes = prometheus.NewDesc("attachdetach_controller_total_volumes",
		"Volumes that are to be attached (desired_state_of_world), and that are or may be (actual_state_of_world).",
		[]string{"plugin_name", "state"}, nil)
	volumesInUse = prometheus.NewDesc("storage_count_attachable_volumes_in_use",
		"Volumes of CSI drivers in the pods on a node.", []string{"node", "volume_plugin"}, nil)
)

// counts counts volumes at each scrape.
type counts struct{ r *reconciler }

// Describe sends the metrics' descriptions.
func (c counts) Describe(to chan<- *prometheus.Desc) {
	to <- totalVolumes
	to <- volumesInUse
}

// Collect counts.
func (c counts) Collect(to chan<- prometheus.Metric) {
	type series struct{ a, b string }
	total := map[series]int{}
	c.r.mu.Lock()
	for _, v := range c.r.state.volumes {
		total[series{pluginOf(v.driver), "desired_state_of_world"}] += len(v.wanted)
		for _, a := range v.nodes {
			if a.state != pending {
				total[series{pluginOf(v.driver), "actual_state_of_world"}]++
			}
		}
	}
	c.r.mu.Unlock()
	send := func(desc *prometheus.Desc, counted map[series]int) {
		for s, n := range counted {
			if n > 0 {
				to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), s.a, s.b)
			}
		}
	}
	send(totalVolumes, total)
	used := map[series]int{}
	for _, pod := range c.r.pods.Indexer().List() {
		if pod.Spec.NodeName == "" {
			continue
		}
		for _, driver := range c.r.driversOf(pod) {
			used[series{pod.Spec.NodeName, pluginOf(driver)}]++
		}
	}
	send(volumesInUse, used)
}

// driversOf returns the drivers of a pod's volumes, one for each volume.
func (r *reconciler) driversOf(pod *corev1.Pod) []string {
	var drivers []string
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.CSI != nil {
			drivers = append(drivers, v.CSI.Driver)
		} else if s := ofInline(v, pod.Namespace); s != nil {
			drivers = append(drivers, s.driver)
		}
	}
	for _, key := range podclaims.Keys(pod) {
		if c, found := r.claims.Indexer().GetByKey(key); found && c.Status.Phase == corev1.ClaimBound {
			if v, found := r.volumes.Indexer().GetByKey(c.Spec.VolumeName); found {
				if s := ofVolume(v); s != nil {
					drivers = append(drivers, s.driver)
				}
			}
		}
	}
	return drivers
}
