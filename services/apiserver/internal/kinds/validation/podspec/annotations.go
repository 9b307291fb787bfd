package podspec

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/podtemplate"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/volumesource"
)

// Legacy annotations about the confinement of containers, and their values.
const (
	seccompPod           = "seccomp.security.alpha.kubernetes.io/pod"
	seccompContainer     = "container.seccomp.security.alpha.kubernetes.io/"
	seccompDefault       = "runtime/default"
	seccompDockerDefault = "docker/default"
	unconfined           = "unconfined"
	localhost            = "localhost/"
)

// Annotations checks the annotations of a pod or a template that have a meaning.
func Annotations(all map[string]string, spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if value, ok := all[corev1.MirrorPodAnnotationKey]; ok && spec.NodeName == "" {
		errs = append(errs, field.Invalid(path.Key(corev1.MirrorPodAnnotationKey), value, "must set spec.nodeName if mirror pod annotation is set"))
	}
	if cost, ok := all[corev1.PodDeletionCost]; ok && !validCost(cost) {
		errs = append(errs, field.Invalid(path.Key(corev1.PodDeletionCost), cost, "must be a 32bit integer"))
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		value := all[key]
		if key == seccompPod || strings.HasPrefix(key, seccompContainer) {
			errs = append(errs, seccompName(value, path.Child(key))...)
		}
		name, isAppArmor := strings.CutPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix)
		if !isAppArmor {
			continue
		}
		if !hasContainer(spec, name) {
			errs = append(errs, field.Invalid(path.Key(key), name, "container not found"))
		}
		if value != "" && value != corev1.DeprecatedAppArmorBetaProfileRuntimeDefault && value != corev1.DeprecatedAppArmorBetaProfileNameUnconfined &&
			!strings.HasPrefix(value, corev1.DeprecatedAppArmorBetaProfileNamePrefix) {
			errs = append(errs, field.Invalid(path.Key(key), value, fmt.Sprintf("invalid AppArmor profile name: %q", value)))
		}
	}
	return errs
}

// validCost reports whether a cost is a 32-bit integer, written without a plus sign or a leading
// zero.
func validCost(cost string) bool {
	if n := len(cost); n > 0 && (cost[0] == '+' || n > 1 && cost[0] == '0') {
		return false
	}
	_, err := strconv.ParseInt(cost, 10, 32)
	return err == nil
}

func seccompName(profile string, path *field.Path) field.ErrorList {
	if file, ok := strings.CutPrefix(profile, localhost); ok {
		return volumesource.Descending(file, path)
	}
	if profile == seccompDefault || profile == seccompDockerDefault || profile == unconfined {
		return nil
	}
	return field.ErrorList{field.Invalid(path, profile, "must be a valid seccomp profile")}
}

func hasContainer(spec *corev1.PodSpec, name string) bool {
	found := false
	podtemplate.EachContainer(spec, nil, func(c *corev1.Container, _ *field.Path) { found = found || c.Name == name })
	return found
}

// AnnotationsUpdate rejects changes of annotations that are immutable for a pod's lifetime.
func AnnotationsUpdate(pod, old *corev1.Pod, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	refuse := func(key, verb string) {
		if strings.HasPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix) {
			errs = append(errs, field.Forbidden(path.Key(key), "may not "+verb+" AppArmor annotations"))
		}
		if key == corev1.MirrorPodAnnotationKey {
			errs = append(errs, field.Forbidden(path.Key(key), "may not "+verb+" mirror pod annotation"))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(old.Annotations)) {
		if value, ok := pod.Annotations[key]; !ok || value != old.Annotations[key] {
			refuse(key, "remove or update")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(pod.Annotations)) {
		if _, ok := old.Annotations[key]; !ok {
			refuse(key, "add")
		}
	}
	return errs
}

// confinement checks that the fields of a new pod, or of a template, agree with its legacy annotations.
func confinement(annotations map[string]string, spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	own := spec.SecurityContext
	if own != nil {
		errs = append(errs, sameSeccomp(annotations, seccompPod, own.SeccompProfile, path.Child("securityContext", "seccompProfile"))...)
	}
	podtemplate.EachContainer(spec, path, func(c *corev1.Container, at *field.Path) {
		if c.SecurityContext != nil {
			errs = append(errs, sameSeccomp(annotations, seccompContainer+c.Name, c.SecurityContext.SeccompProfile, at.Child("securityContext", "seccompProfile"))...)
		}
	})
	if spec.OS != nil && spec.OS.Name == corev1.Windows {
		return errs
	}
	podtemplate.EachContainer(spec, path, func(c *corev1.Container, at *field.Path) {
		var profile *corev1.AppArmorProfile
		if own != nil {
			profile = own.AppArmorProfile
		}
		if c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
			profile = c.SecurityContext.AppArmorProfile
		}
		errs = append(errs, sameAppArmor(annotations, c.Name, profile, at.Child("securityContext", "appArmorProfile"))...)
	})
	return errs
}

func sameSeccomp(all map[string]string, key string, p *corev1.SeccompProfile, path *field.Path) field.ErrorList {
	value, ok := all[key]
	if !ok || p == nil {
		return nil
	}
	const differ = "seccomp type in annotation and field must match"
	file, isLocal := strings.CutPrefix(value, localhost)
	switch {
	case p.Type == corev1.SeccompProfileTypeUnconfined && value != unconfined,
		p.Type == corev1.SeccompProfileTypeRuntimeDefault && value != seccompDefault && value != seccompDockerDefault,
		p.Type == corev1.SeccompProfileTypeLocalhost && !isLocal:
		return field.ErrorList{field.Forbidden(path.Child("type"), differ)}
	case p.Type == corev1.SeccompProfileTypeLocalhost && (p.LocalhostProfile == nil || *p.LocalhostProfile != file):
		return field.ErrorList{field.Forbidden(path.Child("localhostProfile"), "seccomp profile in annotation and field must match")}
	}
	return nil
}

func sameAppArmor(all map[string]string, container string, p *corev1.AppArmorProfile, path *field.Path) field.ErrorList {
	value, ok := all[corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix+container]
	if !ok || p == nil {
		return nil
	}
	const differ = "apparmor type in annotation and field must match"
	file, isLocal := strings.CutPrefix(value, corev1.DeprecatedAppArmorBetaProfileNamePrefix)
	switch {
	case p.Type == corev1.AppArmorProfileTypeUnconfined && value != corev1.DeprecatedAppArmorBetaProfileNameUnconfined,
		p.Type == corev1.AppArmorProfileTypeRuntimeDefault && value != corev1.DeprecatedAppArmorBetaProfileRuntimeDefault,
		p.Type == corev1.AppArmorProfileTypeLocalhost && !isLocal:
		return field.ErrorList{field.Forbidden(path.Child("type"), differ)}
	case p.Type == corev1.AppArmorProfileTypeLocalhost && (p.LocalhostProfile == nil || *p.LocalhostProfile != file):
		return field.ErrorList{field.Forbidden(path.Child("localhostProfile"), "apparmor profile in annotation and field must match")}
	}
	return nil
}
