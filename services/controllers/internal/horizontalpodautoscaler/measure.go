package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/services/controllers/internal/replicacalculator"
)

// measure returns the largest number of replicas that a metric asks for, and that metric. It is not certain
// if no metric can be read, or if some cannot and the others ask for fewer replicas than there are. The
// error tells of those that cannot be read.
func (p *pass) measure(ctx context.Context, t *target) (replicas int32, metric string, certain bool, err error) {
	selector, err := p.selector(t.scale.Status.Selector)
	if err != nil {
		return 0, "", false, err
	}
	w := replicacalculator.Workload{
		Namespace: p.hpa.Namespace, Selector: selector,
		Pods:     func() []*corev1.Pod { return p.podsOf(p.hpa.Namespace, selector) },
		Replicas: t.scale.Spec.Replicas, StatusReplicas: t.scale.Status.Replicas, Tolerance: p.tolerance(),
	}
	specs := p.hpa.Spec.Metrics
	p.readings = make([]autoscalingv2.MetricStatus, len(specs))
	unread, reason := 0, ""
	var first, shown error
	for i := range specs {
		r := p.read(ctx, w, &specs[i])
		if r.err != nil {
			if unread++; unread == 1 {
				first, shown, reason = r.err, r.shown, r.reason
			}
			continue
		}
		p.readings[i] = r.status
		if replicas == 0 || r.replicas > replicas {
			replicas, metric = r.replicas, r.name
		}
	}
	if unread > 0 {
		err = fmt.Errorf("invalid metrics (%v invalid out of %v), first error is: %w", unread, len(specs), first)
	}
	switch {
	case len(specs) == 0:
		return 0, "", false, specError{errors.New("no metrics are set")} // Their default is not empty.
	case unread == len(specs) || unread > 0 && replicas < w.Replicas:
		p.set(autoscalingv2.ScalingActive, corev1.ConditionFalse, reason, "the HPA was unable to compute the replica count: %v", shown)
		return 0, "", false, err
	}
	p.set(autoscalingv2.ScalingActive, corev1.ConditionTrue, "ValidMetricFound", "the HPA was able to successfully calculate a replica count from %s", metric)
	return replicas, metric, true, err
}

// selector reads the target's selector. Its pods must belong to no other autoscaler.
func (p *pass) selector(text string) (labels.Selector, error) {
	refuse := func(event, reason, message string, err error) (labels.Selector, error) {
		p.warn(event, "%s", err)
		p.set(autoscalingv2.ScalingActive, corev1.ConditionFalse, reason, "%s", message)
		return nil, err
	}
	if text == "" {
		return refuse("SelectorRequired", "InvalidSelector", "the HPA target's scale is missing a selector", errors.New("selector is required"))
	}
	selector, err := labels.Parse(text)
	if err != nil {
		err = fmt.Errorf("couldn't convert selector into a corresponding internal selector object: %w", err)
		return refuse("InvalidSelector", "InvalidSelector", err.Error(), err)
	}
	p.selectors.put(p.hpa.Namespace, p.hpa.Name, selector)
	if several := p.selectors.selecting(p.hpa.Namespace, p.podsOf(p.hpa.Namespace, selector)); len(several) > 1 {
		err := fmt.Errorf("pods by selector %v are controlled by more than one HPA (e.g. %v)", text, several)
		return refuse("AmbiguousSelector", "AmbiguousSelector", err.Error(), err)
	}
	return selector, nil
}

// tolerance returns which changes of metrics are too small for the autoscaler.
func (p *pass) tolerance() replicacalculator.Tolerance {
	t := replicacalculator.Tolerance{Down: p.options.Tolerance, Up: p.options.Tolerance}
	if b := p.hpa.Spec.Behavior; b != nil {
		if b.ScaleDown != nil && b.ScaleDown.Tolerance != nil {
			t.Down = b.ScaleDown.Tolerance.AsApproximateFloat64()
		}
		if b.ScaleUp != nil && b.ScaleUp.Tolerance != nil {
			t.Up = b.ScaleUp.Tolerance.AsApproximateFloat64()
		}
	}
	return t
}

// reading is what came of one metric.
type reading struct {
	replicas int32
	// name is what messages call the metric.
	name   string
	status autoscalingv2.MetricStatus
	// err is why the metric could not be read; shown is what the condition and the Event tell of it, with a
	// reason.
	err, shown error
	reason     string
}

// source is a type of metrics.
type source struct {
	// reason and text tell of a metric that cannot be read.
	reason, text string
	read         func(ctx context.Context, p *pass, w replicacalculator.Workload, spec *autoscalingv2.MetricSpec) (measured, error)
}

// measured is a metric that was read, or that could not be: then only detail counts, which errors begin with.
type measured struct {
	replicacalculator.Proposal
	name   string
	status autoscalingv2.MetricStatus
	detail string
}

// read reads a metric.
func (p *pass) read(ctx context.Context, w replicacalculator.Workload, spec *autoscalingv2.MetricSpec) (r reading) {
	begun := time.Now()
	defer func() {
		p.metrics.computed(actionOf(p.hpa.Status.CurrentReplicas, r.replicas), r.err, spec.Type, time.Since(begun))
	}()
	from, found := sourceOf(spec)
	if !found {
		err := specError{fmt.Errorf("unknown metric source type %q", string(spec.Type))}
		p.warn("InvalidMetricSourceType", "%s", err)
		return reading{err: err, shown: err, reason: "InvalidMetricSourceType"}
	}
	m, err := from.read(ctx, p, w, spec)
	if err != nil {
		p.warn(from.reason, "%s", err)
		return reading{err: fmt.Errorf("%s: %s%w", from.text, m.detail, err), shown: err, reason: from.reason}
	}
	m.status.Type = spec.Type
	return reading{replicas: m.Replicas, name: m.name, status: m.status}
}

// sourceOf returns the source of a metric; false if it has none that is known.
func sourceOf(spec *autoscalingv2.MetricSpec) (of source, found bool) {
	switch {
	case spec.Type == autoscalingv2.ObjectMetricSourceType && spec.Object != nil:
		return source{"FailedGetObjectMetric", "failed to get object metric value", objectMetric}, true
	case spec.Type == autoscalingv2.PodsMetricSourceType && spec.Pods != nil:
		return source{"FailedGetPodsMetric", "failed to get pods metric value", podsMetric}, true
	case spec.Type == autoscalingv2.ResourceMetricSourceType && spec.Resource != nil:
		return source{"FailedGetResourceMetric", fmt.Sprintf("failed to get %s resource metric value", spec.Resource.Name), resourceMetric}, true
	case spec.Type == autoscalingv2.ContainerResourceMetricSourceType && spec.ContainerResource != nil:
		return source{"FailedGetContainerResourceMetric", fmt.Sprintf("failed to get %s container metric value", spec.ContainerResource.Container),
			containerMetric}, true
	case spec.Type == autoscalingv2.ExternalMetricSourceType && spec.External != nil:
		return source{"FailedGetExternalMetric", fmt.Sprintf("failed to get %s external metric value", spec.External.Metric.Name), externalMetric}, true
	}
	return source{}, false
}
