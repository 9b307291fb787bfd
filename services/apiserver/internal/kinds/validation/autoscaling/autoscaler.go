package autoscaling

import (
	"fmt"
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
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

// HorizontalPodAutoscaler validates a new autoscaler.
func HorizontalPodAutoscaler(a *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&a.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	target := lenience{coreGroup: a.Spec.ScaleTargetRef.Kind == "ReplicationController"}
	return append(errs, autoscalerSpec(&a.Spec, 1, target, lenience{coreGroup: true})...)
}

// HorizontalPodAutoscalerUpdate validates an update of an autoscaler. References that were invalid
// before these rules existed may stay, and so may minReplicas of 0.
func HorizontalPodAutoscalerUpdate(a, old *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	least := int32(1)
	if old.Spec.MinReplicas != nil && *old.Spec.MinReplicas == 0 {
		least = 0
	}
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
	return autoscalerSpec(&a.Spec, least, target, objects)
}

// HorizontalPodAutoscalerStatus validates an autoscaler's status.
func HorizontalPodAutoscalerStatus(a, _ *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	path := field.NewPath("status")
	errs := apivalidation.ValidateNonnegativeField(int64(a.Status.CurrentReplicas), path.Child("currentReplicas"))
	return append(errs, apivalidation.ValidateNonnegativeField(int64(a.Status.DesiredReplicas), path.Child("desiredReplicas"))...)
}

func autoscalerSpec(spec *autoscalingv2.HorizontalPodAutoscalerSpec, least int32, target, objects lenience) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec")
	if spec.MinReplicas != nil && *spec.MinReplicas < least {
		errs = append(errs, field.Invalid(path.Child("minReplicas"), *spec.MinReplicas, fmt.Sprintf("must be greater than or equal to %d", least)))
	}
	if spec.MaxReplicas < 1 {
		errs = append(errs, field.Invalid(path.Child("maxReplicas"), spec.MaxReplicas, "must be greater than 0"))
	}
	if spec.MinReplicas != nil && spec.MaxReplicas < *spec.MinReplicas {
		errs = append(errs, field.Invalid(path.Child("maxReplicas"), spec.MaxReplicas, "must be greater than or equal to `minReplicas`"))
	}
	errs = append(errs, reference(&spec.ScaleTargetRef, target, path.Child("scaleTargetRef"))...)
	errs = append(errs, metrics(spec, objects, path.Child("metrics"))...)
	if spec.Behavior != nil {
		errs = append(errs, scalingRules(spec.Behavior.ScaleUp, path.Child("behavior", "scaleUp"))...)
		errs = append(errs, scalingRules(spec.Behavior.ScaleDown, path.Child("behavior", "scaleDown"))...)
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

func scalingRules(rules *autoscalingv2.HPAScalingRules, path *field.Path) field.ErrorList {
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
		errs = append(errs, scalingPolicy(&policy, path.Child("policies").Index(i))...)
	}
	if t := rules.Tolerance; t != nil && t.Sign() < 0 {
		errs = append(errs, field.Invalid(path.Child("tolerance"), t.String(), "must be greater than or equal to 0"))
	}
	return errs
}

func scalingPolicy(policy *autoscalingv2.HPAScalingPolicy, path *field.Path) field.ErrorList {
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
