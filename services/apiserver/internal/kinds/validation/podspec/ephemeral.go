package podspec

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/values"
)

const NotEphemeral = "cannot be set for an Ephemeral Container"

// ValidateEphemeralContainers validates an update of a pod's ephemeral containers: containers may
// be added, but not changed or removed.
func ValidateEphemeralContainers(pod, old *corev1.Pod) field.ErrorList {
	if _, ok := old.Annotations[corev1.MirrorPodAnnotationKey]; ok {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods do not support ephemeral containers")}
	}
	errs := MetadataAndSpec(pod, old)
	errs = append(errs, AnnotationsUpdate(pod, old, field.NewPath("metadata", "annotations"))...)
	path := field.NewPath("spec", "ephemeralContainers")
	for i := range old.Spec.EphemeralContainers {
		before := &old.Spec.EphemeralContainers[i]
		at := slices.IndexFunc(pod.Spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return c.Name == before.Name })
		if at < 0 {
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("existing ephemeral containers %q may not be removed\n", before.Name)))
			continue
		}
		if now := &pod.Spec.EphemeralContainers[at]; !apiequality.Semantic.DeepEqual(before, now) {
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("existing ephemeral containers %q may not be changed\n%v", before.Name, values.Changes(before, now))))
		}
	}
	return errs
}

// ephemeral checks the additional rules for an ephemeral container, which may target one of some
// other containers, by name.
func ephemeral(c *corev1.EphemeralContainer, targets sets.Set[string], path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if target := c.TargetContainerName; target != "" && !targets.Has(target) {
		errs = append(errs, field.NotFound(path.Child("targetContainerName"), target))
	}
	for _, name := range []string{"Ports", "Resources", "ResizePolicy", "RestartPolicy", "RestartPolicyRules", "LivenessProbe", "ReadinessProbe", "StartupProbe", "Lifecycle"} {
		if value := reflect.ValueOf(c.EphemeralContainerCommon).FieldByName(name); value.IsValid() && !value.IsZero() {
			errs = append(errs, field.Forbidden(path.Child(strings.ToLower(name[:1])+name[1:]), NotEphemeral))
		}
	}
	for i, mount := range c.VolumeMounts {
		at := path.Child("volumeMounts").Index(i)
		if mount.SubPath != "" {
			errs = append(errs, field.Forbidden(at.Child("subPath"), NotEphemeral))
		}
		if mount.SubPathExpr != "" {
			errs = append(errs, field.Forbidden(at.Child("subPathExpr"), NotEphemeral))
		}
	}
	return errs
}
