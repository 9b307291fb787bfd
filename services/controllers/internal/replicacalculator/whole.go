package replicacalculator

import (
	"context"
	"fmt"
	"math"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/services/controllers/internal/podstate"
)

// Object computes replicas for a target of an object's metric, in thousandths.
func (c *Calculator) Object(ctx context.Context, w Workload, of *autoscalingv2.CrossVersionObjectReference, metric string,
	metricSelector labels.Selector, target int64) (Proposal, error) {
	value, err := c.object(ctx, w, of, metric, metricSelector)
	if err != nil {
		return Proposal{}, err
	}
	return w.byRatio(value, target)
}

// ObjectAverage computes replicas for a target of an object's metric for each replica, in thousandths.
func (c *Calculator) ObjectAverage(ctx context.Context, w Workload, of *autoscalingv2.CrossVersionObjectReference, metric string,
	metricSelector labels.Selector, target int64) (Proposal, error) {
	value, err := c.object(ctx, w, of, metric, metricSelector)
	if err != nil {
		return Proposal{}, err
	}
	return w.byAverage(value, target), nil
}

func (c *Calculator) object(ctx context.Context, w Workload, of *autoscalingv2.CrossVersionObjectReference, metric string,
	metricSelector labels.Selector) (int64, error) {
	value, err := c.Metrics.Object(ctx, metric, w.Namespace, of, metricSelector)
	if err != nil {
		return 0, fmt.Errorf("unable to get metric %s on %s %s/%s: %w", metric, of.Kind, w.Namespace, of.Name, err)
	}
	return value, nil
}

// External computes replicas for a target of an external metric, in thousandths.
func (c *Calculator) External(ctx context.Context, w Workload, metric *autoscalingv2.MetricIdentifier, target int64) (Proposal, error) {
	value, err := c.external(ctx, w, metric)
	if err != nil {
		return Proposal{}, err
	}
	return w.byRatio(value, target)
}

// ExternalAverage computes replicas for a target of an external metric for each replica, in thousandths.
func (c *Calculator) ExternalAverage(ctx context.Context, w Workload, metric *autoscalingv2.MetricIdentifier,
	target int64) (Proposal, error) {
	value, err := c.external(ctx, w, metric)
	if err != nil {
		return Proposal{}, err
	}
	return w.byAverage(value, target), nil
}

func (c *Calculator) external(ctx context.Context, w Workload, metric *autoscalingv2.MetricIdentifier) (total int64, err error) {
	selector, err := metav1.LabelSelectorAsSelector(metric.Selector)
	if err != nil {
		return 0, err
	}
	values, err := c.Metrics.External(ctx, metric.Name, w.Namespace, selector)
	if err != nil {
		return 0, fmt.Errorf("unable to get external metric %s/%s/%+v: %w", w.Namespace, metric.Name, metric.Selector, err)
	}
	for _, value := range values {
		total = add(total, value)
	}
	return total, nil
}

// byRatio computes replicas so that a value, shared by ready pods, comes to its target. From zero the value
// alone decides.
func (w Workload) byRatio(value, target int64) (Proposal, error) {
	proposal, ratio := Proposal{Replicas: w.Replicas, Usage: value}, float64(value)/float64(target)
	switch {
	case w.Replicas == 0:
		proposal.Replicas = ceil(ratio)
	case !w.Tolerance.allows(ratio):
		pods := w.Pods()
		if len(pods) == 0 {
			return Proposal{}, fmt.Errorf("unable to calculate ready pods: %w", errNoPods)
		}
		ready := 0
		for _, pod := range pods {
			if pod.Status.Phase == corev1.PodRunning && podstate.Ready(pod) {
				ready++
			}
		}
		proposal.Replicas = ceil(ratio * float64(ready))
	}
	return proposal, nil
}

// byAverage computes replicas so that each has a share of a value that is at its target.
func (w Workload) byAverage(value, target int64) Proposal {
	proposal := Proposal{Replicas: w.StatusReplicas, Usage: value}
	if !w.Tolerance.allows(float64(value) / (float64(target) * float64(w.StatusReplicas))) {
		proposal.Replicas = ceil(float64(value) / float64(target))
	}
	if w.StatusReplicas > 0 && value != math.MaxInt64 {
		proposal.Usage = whole(math.Ceil(float64(value) / float64(w.StatusReplicas)))
	}
	return proposal
}
