package node

import (
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/resources"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/scheduling"
)

// validateRuntimeClass validates a runtime class.
func validateRuntimeClass(c *nodev1.RuntimeClass) field.ErrorList {
	return append(classWithoutHandler(c), handler(c.Handler, content.IsDNS1123Label)...)
}

func handler(name string, label func(string) []string) field.ErrorList {
	at := field.NewPath("handler")
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	var errs field.ErrorList
	for _, msg := range label(name) {
		errs = append(errs, field.Invalid(at, name, msg))
	}
	return errs
}

// classWithoutHandler validates all of a runtime class but its handler.
func classWithoutHandler(c *nodev1.RuntimeClass) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&c.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	if c.Overhead != nil {
		errs = append(errs, resources.Requirements(&corev1.ResourceRequirements{Limits: c.Overhead.PodFixed}, resources.ContainerName, field.NewPath("overhead"))...)
	}
	if c.Scheduling == nil {
		return errs
	}
	at := field.NewPath("scheduling")
	errs = append(errs, metav1validation.ValidateLabels(c.Scheduling.NodeSelector, at.Child("nodeSelector"))...)
	at = at.Child("tolerations")
	errs = append(errs, scheduling.Tolerations(c.Scheduling.Tolerations, at)...)
	type key struct {
		key, value string
		operator   corev1.TolerationOperator
		effect     corev1.TaintEffect
	}
	seen := map[key]bool{}
	for i, t := range c.Scheduling.Tolerations {
		k := key{t.Key, t.Value, t.Operator, t.Effect}
		if seen[k] {
			errs = append(errs, field.Duplicate(at.Index(i), t))
		}
		seen[k] = true
	}
	return errs
}

// validateRuntimeClassUpdate validates an update of a runtime class. Its handler is immutable, and as in
// Kubernetes the errors in a changed one have other texts than at creation.
func validateRuntimeClassUpdate(c, old *nodev1.RuntimeClass) field.ErrorList {
	errs := append(classWithoutHandler(c), apivalidation.ValidateObjectMetaUpdate(&c.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))...)
	errs = append(errs, handler(c.Handler, func(name string) []string { return apivalidation.NameIsDNSLabel(name, false) })...)
	return append(errs, apivalidation.ValidateImmutableField(c.Handler, old.Handler, field.NewPath("handler"))...)
}
