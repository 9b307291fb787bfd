package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/controllers/internal/replicacalculator"
)

// thousandths returns a quantity of a number of thousandths.
func thousandths(n int64) *resource.Quantity { return resource.NewMilliQuantity(n, resource.DecimalSI) }

func objectMetric(ctx context.Context, p *pass, w replicacalculator.Workload, spec *autoscalingv2.MetricSpec) (m measured, err error) {
	of, target := &spec.Object.DescribedObject, &spec.Object.Target
	selector, err := metav1.LabelSelectorAsSelector(spec.Object.Metric.Selector)
	if err != nil {
		return m, err
	}
	status := &autoscalingv2.ObjectMetricStatus{DescribedObject: *of, Metric: spec.Object.Metric}
	metric := spec.Object.Metric.Name
	switch {
	case target.Type == autoscalingv2.ValueMetricType && target.Value != nil:
		m.Proposal, err = p.calculator.Object(ctx, w, of, metric, selector, target.Value.MilliValue())
		m.name, status.Current.Value = fmt.Sprintf("%s metric %s", of.Kind, metric), thousandths(m.Usage)
	case target.Type == autoscalingv2.AverageValueMetricType && target.AverageValue != nil:
		m.Proposal, err = p.calculator.ObjectAverage(ctx, w, of, metric, selector, target.AverageValue.MilliValue())
		m.name, status.Current.AverageValue = fmt.Sprintf("external metric %s(%+v)", metric, spec.Object.Metric.Selector), thousandths(m.Usage)
		m.detail = fmt.Sprintf("failed to get %s object metric: ", metric)
	default:
		return m, errors.New("invalid object metric source: neither a value target nor an average value target was set")
	}
	m.status.Object = status
	return m, err
}

func podsMetric(ctx context.Context, p *pass, w replicacalculator.Workload, spec *autoscalingv2.MetricSpec) (m measured, err error) {
	selector, err := metav1.LabelSelectorAsSelector(spec.Pods.Metric.Selector)
	if err != nil {
		return m, err
	}
	if spec.Pods.Target.AverageValue == nil {
		return m, specError{errors.New("invalid pods metric source: no average value target was set")}
	}
	metric := spec.Pods.Metric.Name
	m.Proposal, err = p.calculator.PodsMetric(ctx, w, metric, selector, spec.Pods.Target.AverageValue.MilliValue())
	m.name = "pods metric " + metric
	m.status.Pods = &autoscalingv2.PodsMetricStatus{
		Metric: spec.Pods.Metric, Current: autoscalingv2.MetricValueStatus{AverageValue: thousandths(m.Usage)},
	}
	return m, err
}

func resourceMetric(ctx context.Context, p *pass, w replicacalculator.Workload, spec *autoscalingv2.MetricSpec) (measured, error) {
	of := spec.Resource.Name
	m, current, err := p.resource(ctx, w, of, "", &spec.Resource.Target)
	m.status.Resource = &autoscalingv2.ResourceMetricStatus{Name: of, Current: current}
	return m, err
}

func containerMetric(ctx context.Context, p *pass, w replicacalculator.Workload, spec *autoscalingv2.MetricSpec) (measured, error) {
	of, container := spec.ContainerResource.Name, spec.ContainerResource.Container
	m, current, err := p.resource(ctx, w, of, container, &spec.ContainerResource.Target)
	if spec.ContainerResource.Target.AverageValue == nil {
		m.name = fmt.Sprintf("%s container resource utilization (percentage of request)", of)
	}
	m.status.ContainerResource = &autoscalingv2.ContainerResourceMetricStatus{Name: of, Container: container, Current: current}
	return m, err
}

// resource reads how much of a resource pods use, or, if it is not empty, one container of each.
func (p *pass) resource(ctx context.Context, w replicacalculator.Workload, of corev1.ResourceName, container string,
	target *autoscalingv2.MetricTarget) (m measured, current autoscalingv2.MetricValueStatus, err error) {
	switch {
	case target.AverageValue != nil:
		m.name = string(of) + " resource"
		if m.Proposal, err = p.calculator.ResourceUsage(ctx, w, of, container, target.AverageValue.MilliValue()); err != nil {
			return m, current, fmt.Errorf("failed to get %s usage: %w", of, err)
		}
	case target.AverageUtilization != nil:
		m.name = fmt.Sprintf("%s resource utilization (percentage of request)", of)
		if m.Proposal, err = p.calculator.Utilization(ctx, w, of, container, *target.AverageUtilization); err != nil {
			return m, current, fmt.Errorf("failed to get %s utilization: %w", of, err)
		}
		current.AverageUtilization = &m.Utilization
	default:
		return m, current, errors.New("invalid resource metric source: neither an average utilization target nor an average value (usage) target was set")
	}
	current.AverageValue = thousandths(m.Usage)
	if of == corev1.ResourceMemory {
		current.AverageValue.Format = resource.BinarySI
	}
	return m, current, nil
}

func externalMetric(ctx context.Context, p *pass, w replicacalculator.Workload, spec *autoscalingv2.MetricSpec) (m measured, err error) {
	metric, target := &spec.External.Metric, &spec.External.Target
	status := &autoscalingv2.ExternalMetricStatus{Metric: *metric}
	m.name = fmt.Sprintf("external metric %s(%+v)", metric.Name, metric.Selector)
	switch {
	case target.AverageValue != nil:
		m.Proposal, err = p.calculator.ExternalAverage(ctx, w, metric, target.AverageValue.MilliValue())
		status.Current.AverageValue, m.detail = thousandths(m.Usage), fmt.Sprintf("failed to get %s external metric: ", metric.Name)
	case target.Value != nil:
		m.Proposal, err = p.calculator.External(ctx, w, metric, target.Value.MilliValue())
		status.Current.Value, m.detail = thousandths(m.Usage), fmt.Sprintf("failed to get external metric %s: ", metric.Name)
	default:
		return m, errors.New("invalid external metric source: neither a value target nor an average value target was set")
	}
	m.status.External = status
	return m, err
}
