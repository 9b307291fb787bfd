package autoscaling

import (
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/validate/content"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	names "github.com/garboard/garboard/services/apiserver/internal/kinds/validation/resources"
)

// metrics checks the metrics of an autoscaler.
func metrics(spec *autoscalingv2.HorizontalPodAutoscalerSpec, objects lenience, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	outside := false
	for i := range spec.Metrics {
		m := &spec.Metrics[i]
		errs = append(errs, metric(m, objects, path.Index(i))...)
		outside = outside || m.Type == autoscalingv2.ObjectMetricSourceType || m.Type == autoscalingv2.ExternalMetricSourceType
	}
	if spec.MinReplicas != nil && *spec.MinReplicas == 0 && !outside {
		errs = append(errs, field.Forbidden(path, "must specify at least one Object or External metric to support scaling to zero replicas"))
	}
	return errs
}

// source is one of the possible sources of a metric.
type source struct {
	kind  autoscalingv2.MetricSourceType
	name  string
	given bool
	check func(path *field.Path) field.ErrorList
}

func sources(m *autoscalingv2.MetricSpec, objects lenience) []source {
	return []source{
		{autoscalingv2.ObjectMetricSourceType, "object", m.Object != nil, func(path *field.Path) field.ErrorList { return object(m.Object, objects, path) }},
		{autoscalingv2.ExternalMetricSourceType, "external", m.External != nil, func(path *field.Path) field.ErrorList { return external(m.External, path) }},
		{autoscalingv2.PodsMetricSourceType, "pods", m.Pods != nil, func(path *field.Path) field.ErrorList { return pods(m.Pods, path) }},
		{autoscalingv2.ResourceMetricSourceType, "resource", m.Resource != nil, func(path *field.Path) field.ErrorList { return resources(m.Resource, path) }},
		{autoscalingv2.ContainerResourceMetricSourceType, "containerResource", m.ContainerResource != nil, func(path *field.Path) field.ErrorList {
			return containerResource(m.ContainerResource, path)
		}},
	}
}

// metric checks that a metric has exactly one source, and that it is the one of its type.
func metric(m *autoscalingv2.MetricSpec, objects lenience, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	all := sources(m, objects)
	var kinds []autoscalingv2.MetricSourceType
	count := 0
	for _, s := range all {
		kinds = append(kinds, s.kind)
		if s.given {
			if count++; count == 1 {
				errs = append(errs, s.check(path.Child(s.name))...)
			}
		}
	}
	slices.Sort(kinds)
	if m.Type == "" {
		errs = append(errs, field.Required(path.Child("type"), "must specify a metric source type"))
	}
	if !slices.Contains(kinds, m.Type) {
		errs = append(errs, field.NotSupported(path.Child("type"), m.Type, kinds))
	}
	for _, s := range all {
		switch {
		case s.kind == m.Type && !s.given:
			errs = append(errs, field.Required(path.Child(s.name), "must populate information for the given metric source"))
		case s.kind != m.Type && s.given && count > 1:
			errs = append(errs, field.Forbidden(path.Child(s.name), "must populate the given metric source only"))
		}
	}
	return errs
}

func object(s *autoscalingv2.ObjectMetricSource, allowed lenience, path *field.Path) field.ErrorList {
	errs := reference(&s.DescribedObject, allowed, path.Child("describedObject"))
	errs = append(errs, identified(&s.Metric, &s.Target, path)...)
	if s.Target.Value == nil && s.Target.AverageValue == nil {
		errs = append(errs, field.Required(path.Child("target", "averageValue"), "must set either a target value or averageValue"))
	}
	return errs
}

func external(s *autoscalingv2.ExternalMetricSource, path *field.Path) field.ErrorList {
	errs := identified(&s.Metric, &s.Target, path)
	switch value, average := s.Target.Value != nil, s.Target.AverageValue != nil; {
	case !value && !average:
		errs = append(errs, field.Required(path.Child("target", "averageValue"), "must set either a target value for metric or a per-pod target"))
	case value && average:
		errs = append(errs, field.Forbidden(path.Child("target", "value"), "may not set both a target value for metric and a per-pod target"))
	}
	return errs
}

func pods(s *autoscalingv2.PodsMetricSource, path *field.Path) field.ErrorList {
	errs := identified(&s.Metric, &s.Target, path)
	if s.Target.AverageValue == nil {
		errs = append(errs, field.Required(path.Child("target", "averageValue"), "must specify a positive target averageValue"))
	}
	return errs
}

func resources(s *autoscalingv2.ResourceMetricSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), "must specify a resource name"))
	}
	return append(errs, average(&s.Target, path.Child("target"))...)
}

func containerResource(s *autoscalingv2.ContainerResourceMetricSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), "must specify a resource name"))
	} else {
		errs = append(errs, names.ContainerName(s.Name, path.Child("name"))...)
	}
	if s.Container == "" {
		errs = append(errs, field.Required(path.Child("container"), "must specify a container"))
	} else {
		for _, msg := range utilvalidation.IsDNS1123Label(s.Container) {
			errs = append(errs, field.Invalid(path.Child("container"), s.Container, msg))
		}
	}
	return append(errs, average(&s.Target, path.Child("target"))...)
}

// average checks the target of a pod resource metric.
func average(t *autoscalingv2.MetricTarget, path *field.Path) field.ErrorList {
	errs := target(t, path)
	switch utilization, value := t.AverageUtilization != nil, t.AverageValue != nil; {
	case !utilization && !value:
		errs = append(errs, field.Required(path.Child("averageUtilization"), "must set either a target raw value or a target utilization"))
	case utilization && value:
		errs = append(errs, field.Forbidden(path.Child("averageValue"), "may not set both a target raw value and a target utilization"))
	}
	return errs
}

func identified(id *autoscalingv2.MetricIdentifier, t *autoscalingv2.MetricTarget, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	at := path.Child("metric", "name")
	if id.Name == "" {
		errs = append(errs, field.Required(at, "must specify a metric name"))
	}
	for _, msg := range content.IsPathSegmentName(id.Name) {
		errs = append(errs, field.Invalid(at, id.Name, msg))
	}
	return append(errs, target(t, path.Child("target"))...)
}

func target(t *autoscalingv2.MetricTarget, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Type == "" {
		errs = append(errs, field.Required(path.Child("type"), "must specify a metric target type"))
	}
	if t.Type != autoscalingv2.UtilizationMetricType && t.Type != autoscalingv2.ValueMetricType && t.Type != autoscalingv2.AverageValueMetricType {
		errs = append(errs, field.Invalid(path.Child("type"), t.Type, "must be either Utilization, Value, or AverageValue"))
	}
	if t.Value != nil && t.Value.Sign() != 1 {
		errs = append(errs, field.Invalid(path.Child("value"), t.Value.String(), "must be positive"))
	}
	if t.AverageValue != nil && t.AverageValue.Sign() != 1 {
		errs = append(errs, field.Invalid(path.Child("averageValue"), t.AverageValue.String(), "must be positive"))
	}
	if t.AverageUtilization != nil && *t.AverageUtilization < 1 {
		errs = append(errs, field.Invalid(path.Child("averageUtilization"), *t.AverageUtilization, "must be greater than 0"))
	}
	return errs
}
