package pod

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/podtemplate"
)

// appArmorFields sets the AppArmor profiles of containers whose profiles are only in legacy
// annotations.
func appArmorFields(p *corev1.Pod) {
	eachLegacyProfile(p, func(c *corev1.Container, whole *corev1.AppArmorProfile, _, value string) {
		named := podtemplate.AppArmorNamed(value)
		if named == nil || apiequality.Semantic.DeepEqual(named, whole) {
			return
		}
		if c.SecurityContext == nil {
			c.SecurityContext = &corev1.SecurityContext{}
		}
		c.SecurityContext.AppArmorProfile = named
	})
}

// appArmorWarnings returns the warnings about legacy annotations that appArmorFields turns into fields, or
// cannot understand.
func appArmorWarnings(p *corev1.Pod) []string {
	var found []string
	eachLegacyProfile(p, func(_ *corev1.Container, whole *corev1.AppArmorProfile, key, value string) {
		if named := podtemplate.AppArmorNamed(value); named == nil || !apiequality.Semantic.DeepEqual(named, whole) {
			found = append(found, fmt.Sprintf("%s: %s", field.NewPath("metadata", "annotations").Key(key), podtemplate.AppArmorDeprecated))
		}
	})
	return found
}

// eachLegacyProfile calls do for each container whose profile is only in a legacy annotation. whole is the
// profile of the pod as a whole, if any.
func eachLegacyProfile(p *corev1.Pod, do func(c *corev1.Container, whole *corev1.AppArmorProfile, key, value string)) {
	if p.Spec.OS != nil && p.Spec.OS.Name == corev1.Windows {
		return
	}
	var whole *corev1.AppArmorProfile
	if p.Spec.SecurityContext != nil {
		whole = p.Spec.SecurityContext.AppArmorProfile
	}
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			key := corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + list[i].Name
			value, ok := p.Annotations[key]
			if ok && (list[i].SecurityContext == nil || list[i].SecurityContext.AppArmorProfile == nil) {
				do(&list[i], whole, key, value)
			}
		}
	}
}
