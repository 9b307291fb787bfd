// Package replicacalculator computes how many replicas a metric asks for, as Kubernetes' replica calculator
// does (kubernetes, pkg/controller/podautoscaler/replica_calculator.go).
//
// Measured values come from outside. Numbers that do not fit become the nearest that do, so that an absurd
// value asks for none or for very many replicas, which the autoscaler's bounds then limit.
package replicacalculator

import (
	"context"
	"errors"
	"math"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/services/controllers/internal/metricsapi"
)

// Metrics returns measured values, in thousandths.
type Metrics interface {
	// Resource returns how much of a resource the selected pods use; those of which it is not known are missing. If
	// container is not empty, only that one counts.
	Resource(ctx context.Context, of corev1.ResourceName, namespace string, selector labels.Selector,
		container string) (metricsapi.PodMetrics, error)
	// Pods returns another metric of the selected pods.
	Pods(ctx context.Context, metric, namespace string, selector, metricSelector labels.Selector) (metricsapi.PodMetrics, error)
	// Object returns a metric of one object.
	Object(ctx context.Context, metric, namespace string, of *autoscalingv2.CrossVersionObjectReference,
		metricSelector labels.Selector) (int64, error)
	// External returns the selected values of a metric that belongs to no object.
	External(ctx context.Context, metric, namespace string, selector labels.Selector) ([]int64, error)
}

// Calculator computes numbers of replicas.
type Calculator struct {
	// Metrics returns what is measured.
	Metrics Metrics
	// CPUInitialization is for how long after a pod's start its use of CPU counts only once it is ready, and
	// measured since.
	CPUInitialization time.Duration
	// ReadinessDelay is within what time after a pod's start a change of its readiness counts as the first.
	ReadinessDelay time.Duration
}

// Workload is what a metric is to scale.
type Workload struct {
	Namespace string
	// Selector selects its pods, and Pods returns those that there are.
	Selector labels.Selector
	Pods     func() []*corev1.Pod
	// Replicas is how many it shall have, and StatusReplicas how many it has.
	Replicas, StatusReplicas int32
	// Tolerance is what change is too small to act on.
	Tolerance Tolerance
}

// Tolerance is by what share a metric may differ from its target before replicas are removed or added.
type Tolerance struct{ Down, Up float64 }

func (t Tolerance) allows(ratio float64) bool { return 1-t.Down <= ratio && ratio <= 1+t.Up }

// Proposal is what one metric asks for.
type Proposal struct {
	// Replicas is the number of replicas, at least 0.
	Replicas int32
	// Usage is the measured value, in thousandths: an average of pods, or the whole of an object.
	Usage int64
	// Utilization is Usage as a percentage of what pods request; 0 for metrics that are not measured so.
	Utilization int32
}

var (
	errNoPods     = errors.New("no pods returned by selector while calculating replica count")
	errNoReadings = errors.New("did not receive metrics for targeted pods (pods might be unready)")
)

// ceil rounds up to a number of replicas: at least 0, which is also what is no number, and at most the
// greatest.
func ceil(f float64) int32 {
	switch {
	case math.IsNaN(f) || f <= 0:
		return 0
	case f >= math.MaxInt32:
		return math.MaxInt32
	}
	return int32(math.Ceil(f))
}

// add adds values; the result is the nearest number that there is if it does not fit.
func add(a, b int64) int64 {
	switch {
	case a > 0 && b > math.MaxInt64-a:
		return math.MaxInt64
	case a < 0 && b < math.MinInt64-a:
		return math.MinInt64
	}
	return a + b
}

// scaled returns value * by / of, without its fraction; the nearest number that there is if it does not fit.
func scaled(value, by, of int64) int64 {
	if product := value * by; value == 0 || product/value == by && (value != -1 || by != math.MinInt64) {
		return product / of
	}
	return whole(float64(value) * float64(by) / float64(of))
}

// whole returns a number without its fraction; the nearest that there is if it does not fit.
func whole(f float64) int64 {
	switch {
	case math.IsNaN(f):
		return 0
	case f >= math.MaxInt64:
		return math.MaxInt64
	case f <= math.MinInt64:
		return math.MinInt64
	}
	return int64(f)
}
