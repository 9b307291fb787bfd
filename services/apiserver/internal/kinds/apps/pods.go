package apps

import (
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/podspec"
)

// Kubernetes' defaults for workloads.
const (
	defaultReplicas  = 1
	revisionHistory  = 10
	progressDeadline = 600 // seconds
	surge            = "25%"
)

// templatePath is the path of the pod template in most workloads.
func templatePath() *field.Path { return field.NewPath("spec", "template") }

const mismatch = "`selector` does not match template `labels`"

func validateReplicas(number *int32, path *field.Path) field.ErrorList {
	if number == nil {
		return nil
	}
	return nonnegative(int64(*number), path.Child("replicas"))
}

// selected checks that there is a selector and that it matches the template. Errors say that the
// selector is for kind. The selector of no pods is well-formed; beside a malformed one, the template is
// not checked.
func selected(selector *metav1.LabelSelector, template *corev1.PodTemplateSpec, kind, malformed string, path *field.Path) (wellFormed bool, errs field.ErrorList) {
	at := path.Child("selector")
	if selector == nil {
		errs = append(errs, field.Required(at, ""))
	} else {
		errs = append(errs, metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, at)...)
		if len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
			errs = append(errs, field.Invalid(at, selector, "empty selector is invalid for "+kind))
		}
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return false, append(errs, field.Invalid(at, selector, malformed))
	}
	if !parsed.Empty() && !parsed.Matches(labels.Set(template.Labels)) {
		errs = append(errs, field.Invalid(path.Child("template", "metadata", "labels"), template.Labels, mismatch))
	}
	return true, errs
}

// template checks the template of pods that are meant to run for ever, on creation and on each update of
// old. kind is the workload that runs them.
func template(t, old *corev1.PodTemplateSpec, kind string, path *field.Path) field.ErrorList {
	return append(podspec.Template(t, old, path), lasting(&t.Spec, kind, path.Child("spec"))...)
}

func lasting(spec *corev1.PodSpec, kind string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if spec.RestartPolicy != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(path.Child("restartPolicy"), spec.RestartPolicy, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(path.Child("activeDeadlineSeconds"), "activeDeadlineSeconds in "+kind+" is not Supported"))
	}
	return errs
}

// count is one of the numbers of pods in a status.
type count struct {
	name  string
	value int32
}

// counts checks the numbers of pods in a status: no part may exceed the whole, and no more pods may
// be available than ready. belowReady is the error message for the latter. terminating may be nil.
func counts(path *field.Path, whole, ready, available int32, belowReady string, terminating *int32, parts ...count) field.ErrorList {
	errs := nonnegative(int64(whole), path.Child("replicas"))
	parts = append(parts, count{"readyReplicas", ready}, count{"availableReplicas", available})
	for _, part := range parts {
		errs = append(errs, nonnegative(int64(part.value), path.Child(part.name))...)
		if part.value > whole {
			errs = append(errs, field.Invalid(path.Child(part.name), part.value, "cannot be greater than status.replicas"))
		}
	}
	if available > ready {
		errs = append(errs, field.Invalid(path.Child("availableReplicas"), available, belowReady))
	}
	if terminating != nil {
		errs = append(errs, nonnegative(int64(*terminating), path.Child("terminatingReplicas"))...)
	}
	return errs
}

func collisions(now, old *int32, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if now != nil {
		errs = append(errs, nonnegative(int64(*now), path)...)
	}
	if old == nil {
		return errs
	}
	var count int32
	if now != nil {
		count = *now
	}
	if count < *old {
		errs = append(errs, field.Invalid(path, count, "cannot be decremented"))
	}
	return errs
}

func nonnegative(value int64, path *field.Path) field.ErrorList {
	return apivalidation.ValidateNonnegativeField(value, path)
}
