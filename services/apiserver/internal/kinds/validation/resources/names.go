package resources

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Sorted returns the names in a list, sorted.
func Sorted(list corev1.ResourceList) []corev1.ResourceName {
	return slices.Sorted(maps.Keys(list))
}

// Name validates the name of any resource.
func Name(name corev1.ResourceName, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validation.IsQualifiedName(string(name)) {
		errs = append(errs, field.Invalid(path, string(name), msg))
	}
	if len(errs) == 0 && !strings.Contains(string(name), "/") && name != corev1.ResourceStorage && !Quota(name) {
		errs = append(errs, field.Invalid(path, string(name), "must be a standard resource type or fully qualified"))
	}
	return errs
}

// ContainerName validates the name of a resource that containers use.
func ContainerName(name corev1.ResourceName, path *field.Path) field.ErrorList {
	errs := Name(name, path)
	switch {
	case !strings.Contains(string(name), "/"):
		if !computing(name) && !HugePages(name) {
			errs = append(errs, field.Invalid(path, string(name), "must be a standard resource for containers"))
		}
	case !Native(name) && !Extended(name):
		errs = append(errs, field.Invalid(path, string(name), "doesn't follow extended resource name standard"))
	}
	return errs
}

// Quota reports whether the quota system knows a name without a slash.
func Quota(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage,
		corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsStorage, corev1.ResourceRequestsEphemeralStorage,
		corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage:
		return true
	}
	return Counted(name) || HugePages(name) || strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix)
}

// Counted reports whether a resource is a number of objects.
func Counted(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers,
		corev1.ResourceSecrets, corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims,
		corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers:
		return true
	}
	return false
}

// Native reports whether a resource is Kubernetes' own.
func Native(name corev1.ResourceName) bool {
	return !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// Extended reports whether a resource is one that nodes offer beyond Kubernetes' own.
func Extended(name corev1.ResourceName) bool {
	return !Native(name) && !strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix) &&
		len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+string(name))) == 0
}

// computing reports whether a resource is CPU, memory or local storage.
func computing(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage
}

// HugePages reports whether a resource is huge pages of some size.
func HugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// whole reports whether amounts of a resource are integers.
func whole(name corev1.ResourceName) bool { return Counted(name) || Extended(name) }

// Overcommits reports whether the limit of a resource may exceed its request.
func Overcommits(name corev1.ResourceName) bool { return Native(name) && !HugePages(name) }
