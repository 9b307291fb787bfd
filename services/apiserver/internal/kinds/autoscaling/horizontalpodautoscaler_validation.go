package autoscaling

import (
	"fmt"
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	names "github.com/garboard/garboard/services/apiserver/internal/kinds/validation/resources"
)

// Kubernetes' limits for scaling behaviour, in seconds.
const (
	maxPeriod              = 1800
	maxStabilizationWindow = 3600
)

// lenience relaxes the rules for a reference to another object.
type lenience struct {
	// coreGroup allows a kind without a group.
	coreGroup bool
	// anyVersion allows any version.
	anyVersion bool
}

// validateHorizontalPodAutoscaler validates a new autoscaler.
func validateHorizontalPodAutoscaler(a *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&a.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	target := lenience{coreGroup: a.Spec.ScaleTargetRef.Kind == "ReplicationController"}
	return append(errs, autoscalerSpec(&a.Spec, target, lenience{coreGroup: true})...)
}

// validateHorizontalPodAutoscalerUpdate validates an update of an autoscaler. References that were invalid
// before these rules existed may stay.
func validateHorizontalPodAutoscalerUpdate(a, old *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	now, before := a.Spec.ScaleTargetRef, old.Spec.ScaleTargetRef
	var target lenience
	if now.Kind == before.Kind && now.APIVersion == before.APIVersion {
		target.anyVersion = true
	} else {
		target.coreGroup = now.Kind == "ReplicationController"
	}
	objects := lenience{coreGroup: true}
	for _, metric := range old.Spec.Metrics {
		if metric.Type == autoscalingv2.ObjectMetricSourceType && metric.Object != nil && apiVersion(metric.Object.DescribedObject.APIVersion, objects) != "" {
			objects.anyVersion = true
		}
	}
	return autoscalerSpec(&a.Spec, target, objects)
}

// validateHorizontalPodAutoscalerStatus validates an autoscaler's status.
func validateHorizontalPodAutoscalerStatus(a, _ *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	path := field.NewPath("status")
	var errs field.ErrorList
	for i, c := range a.Status.Conditions {
		if c.ObservedGeneration != nil {
			errs = append(errs, apivalidation.ValidateNonnegativeField(*c.ObservedGeneration, path.Child("conditions").Index(i).Child("observedGeneration"))...)
		}
	}
	errs = append(errs, apivalidation.ValidateNonnegativeField(int64(a.Status.CurrentReplicas), path.Child("currentReplicas"))...)
	return append(errs, apivalidation.ValidateNonnegativeField(int64(a.Status.DesiredReplicas), path.Child("desiredReplicas"))...)
}

func autoscalerSpec(spec *autoscalingv2.HorizontalPodAutoscalerSpec, target, objects lenience) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec")
	if spec.MinReplicas != nil && *spec.MinReplicas < 0 {
		errs = append(errs, field.Invalid(path.Child("minReplicas"), *spec.MinReplicas, "must be greater than or equal to 0"))
	}
	if spec.MaxReplicas == 0 {
		errs = append(errs, field.Required(path.Child("maxReplicas"), ""))
	} else if spec.MaxReplicas < 0 {
		errs = append(errs, field.Invalid(path.Child("maxReplicas"), spec.MaxReplicas, "must be greater than or equal to 1"))
	}
	if spec.MinReplicas != nil && spec.MaxReplicas < *spec.MinReplicas {
		errs = append(errs, field.Invalid(path.Child("maxReplicas"), spec.MaxReplicas, "must be greater than or equal to `minReplicas`"))
	}
	errs = append(errs, reference(&spec.ScaleTargetRef, target, path.Child("scaleTargetRef"))...)
	errs = append(errs, metrics(spec, objects, path.Child("metrics"))...)
	if spec.Behavior != nil {
		errs = append(errs, validateScalingRules(spec.Behavior.ScaleUp, path.Child("behavior", "scaleUp"))...)
		errs = append(errs, validateScalingRules(spec.Behavior.ScaleDown, path.Child("behavior", "scaleDown"))...)
	}
	return errs
}

// reference checks the name of another object.
func reference(ref *autoscalingv2.CrossVersionObjectReference, allowed lenience, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, part := range []struct{ name, value string }{{"kind", ref.Kind}, {"name", ref.Name}} {
		if part.value == "" {
			errs = append(errs, field.Required(path.Child(part.name), ""))
		}
		for _, msg := range content.IsPathSegmentName(part.value) {
			errs = append(errs, field.Invalid(path.Child(part.name), part.value, msg))
		}
	}
	if msg := apiVersion(ref.APIVersion, allowed); msg != "" {
		errs = append(errs, field.Invalid(path.Child("apiVersion"), ref.APIVersion, msg))
	}
	return errs
}

// apiVersion returns what is wrong with the version of a reference; empty if it is valid.
func apiVersion(version string, allowed lenience) string {
	if allowed.anyVersion {
		return ""
	}
	gv, err := schema.ParseGroupVersion(version)
	switch {
	case err != nil:
		return err.Error()
	case gv.Group == "" && !allowed.coreGroup:
		return "apiVersion must specify API group"
	}
	return ""
}

func validateScalingRules(rules *autoscalingv2.HPAScalingRules, path *field.Path) field.ErrorList {
	if rules == nil {
		return nil
	}
	var errs field.ErrorList
	if window, at := rules.StabilizationWindowSeconds, path.Child("stabilizationWindowSeconds"); window != nil {
		if *window < 0 {
			errs = append(errs, field.Invalid(at, *window, "must be greater than or equal to zero"))
		}
		if *window > maxStabilizationWindow {
			errs = append(errs, field.Invalid(at, *window, fmt.Sprintf("must be less than or equal to %d", maxStabilizationWindow)))
		}
	}
	selections := []autoscalingv2.ScalingPolicySelect{autoscalingv2.DisabledPolicySelect, autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect}
	if s := rules.SelectPolicy; s != nil && !slices.Contains(selections, *s) {
		errs = append(errs, field.NotSupported(path.Child("selectPolicy"), *s, selections))
	}
	if len(rules.Policies) == 0 {
		errs = append(errs, field.Required(path.Child("policies"), "must specify at least one Policy"))
	}
	for i, policy := range rules.Policies {
		errs = append(errs, validateScalingPolicy(&policy, path.Child("policies").Index(i))...)
	}
	if t := rules.Tolerance; t != nil && t.Sign() < 0 {
		errs = append(errs, field.Invalid(path.Child("tolerance"), t.String(), "must be greater than or equal to 0"))
	}
	return errs
}

func validateScalingPolicy(policy *autoscalingv2.HPAScalingPolicy, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	kinds := []autoscalingv2.HPAScalingPolicyType{autoscalingv2.PercentScalingPolicy, autoscalingv2.PodsScalingPolicy}
	if !slices.Contains(kinds, policy.Type) {
		errs = append(errs, field.NotSupported(path.Child("type"), policy.Type, kinds))
	}
	if policy.Value <= 0 {
		errs = append(errs, field.Invalid(path.Child("value"), policy.Value, "must be greater than zero"))
	}
	if policy.PeriodSeconds <= 0 {
		errs = append(errs, field.Invalid(path.Child("periodSeconds"), policy.PeriodSeconds, "must be greater than zero"))
	}
	if policy.PeriodSeconds > maxPeriod {
		errs = append(errs, field.Invalid(path.Child("periodSeconds"), policy.PeriodSeconds, fmt.Sprintf("must be less than or equal to %d", maxPeriod)))
	}
	return errs
}

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
		{autoscalingv2.ResourceMetricSourceType, "resource", m.Resource != nil, func(path *field.Path) field.ErrorList { return validateResources(m.Resource, path) }},
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

func validateResources(s *autoscalingv2.ResourceMetricSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), "must specify a resource name"))
	}
	return append(errs, validateAverage(&s.Target, path.Child("target"))...)
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
	return append(errs, validateAverage(&s.Target, path.Child("target"))...)
}

// validateAverage checks the target of a pod resource metric.
func validateAverage(t *autoscalingv2.MetricTarget, path *field.Path) field.ErrorList {
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
