// Package quota computes how much an object uses of the resources that a ResourceQuota limits, and
// which quotas limit it, as Kubernetes does. The apiserver, which charges quotas, and the
// controller that recomputes them share it. It has no side effects beyond its arguments.
package quota

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/garboard/garboard/libs/scheme"
)

// Counted reports whether objects of a kind count toward quotas at all: those of all stored,
// namespaced kinds except events do, as in Kubernetes.
func Counted(kind *scheme.Kind) bool {
	return kind.Namespaced && kind.StoragePrefix != "" && kind.Resource != "events"
}

// CountName returns the quota resource that counts the objects of a kind: count/pods,
// count/deployments.apps.
func CountName(kind *scheme.Kind) corev1.ResourceName {
	return corev1.ResourceName("count/" + kind.GroupResource().String())
}

// Usage returns how much one object uses of every resource that a quota could limit. It is empty
// for kinds that do not count. A pod that has ended, or whose grace period has passed, uses only
// its place in storage (count/pods).
func Usage(kind *scheme.Kind, obj scheme.Object) corev1.ResourceList {
	if !Counted(kind) {
		return corev1.ResourceList{}
	}
	usage := corev1.ResourceList{CountName(kind): *resource.NewQuantity(1, resource.DecimalSI)}
	switch o := obj.(type) {
	case *corev1.Pod:
		addPod(usage, o)
	case *corev1.Service:
		addService(usage, o)
	case *corev1.PersistentVolumeClaim:
		addClaim(usage, o)
	case *resourcev1.ResourceClaim:
		addDevices(usage, o)
	default:
		if alias := alias(kind); alias != "" {
			usage[alias] = *resource.NewQuantity(1, resource.DecimalSI)
		}
	}
	return usage
}

// Covers reports whether objects of a kind use the quota resource name.
func Covers(kind *scheme.Kind, name corev1.ResourceName) bool {
	if !Counted(kind) {
		return false
	}
	if name == CountName(kind) {
		return true
	}
	if kind.Group == resourcev1.GroupName && kind.Resource == "resourceclaims" {
		return coversDevices(name)
	}
	if kind.Group != "" {
		return false
	}
	switch kind.Resource {
	case "pods":
		return coversPod(name)
	case "services":
		return name == corev1.ResourceServices || name == corev1.ResourceServicesNodePorts || name == corev1.ResourceServicesLoadBalancers
	case "persistentvolumeclaims":
		return coversClaim(name)
	}
	return name == alias(kind)
}

// Covered returns those of names that objects of a kind use, sorted.
func Covered(kind *scheme.Kind, names corev1.ResourceList) []corev1.ResourceName {
	var covered []corev1.ResourceName
	for name := range names {
		if Covers(kind, name) {
			covered = append(covered, name)
		}
	}
	slices.Sort(covered)
	return covered
}

// Matches reports whether a quota limits an object: it limits something that the object's kind
// uses, and the object is in its scopes. Only status.hard counts, so that a quota limits nothing
// before its controller has seen it.
func Matches(quota *corev1.ResourceQuota, kind *scheme.Kind, obj scheme.Object) bool {
	return len(Covered(kind, quota.Status.Hard)) > 0 && InScopes(quota, obj)
}

// InScopes reports whether an object is in all scopes of a quota. A quota without scopes includes
// every object; one with scopes only pods, and claims by their VolumeAttributesClass.
func InScopes(quota *corev1.ResourceQuota, obj scheme.Object) bool {
	for _, scope := range Scopes(quota) {
		var in bool
		switch o := obj.(type) {
		case *corev1.Pod:
			in = podInScope(o, scope)
		case *corev1.PersistentVolumeClaim:
			in = claimInScope(o, scope)
		}
		if !in {
			return false
		}
	}
	return true
}

// Scopes returns the scopes of a quota from both of its fields.
func Scopes(quota *corev1.ResourceQuota) []corev1.ScopedResourceSelectorRequirement {
	var all []corev1.ScopedResourceSelectorRequirement
	for _, scope := range quota.Spec.Scopes {
		all = append(all, corev1.ScopedResourceSelectorRequirement{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists})
	}
	if quota.Spec.ScopeSelector != nil {
		all = append(all, quota.Spec.ScopeSelector.MatchExpressions...)
	}
	return all
}

// selects reports whether one of the values, or the absence of values, satisfies a scope's
// operator. An invalid scope selects nothing.
func selects(scope corev1.ScopedResourceSelectorRequirement, values []string) bool {
	operators := map[corev1.ScopeSelectorOperator]selection.Operator{
		corev1.ScopeSelectorOpIn: selection.In, corev1.ScopeSelectorOpNotIn: selection.NotIn,
		corev1.ScopeSelectorOpExists: selection.Exists, corev1.ScopeSelectorOpDoesNotExist: selection.DoesNotExist,
	}
	requirement, err := labels.NewRequirement(string(scope.ScopeName), operators[scope.Operator], scope.Values)
	if err != nil {
		return false
	}
	if len(values) == 0 {
		return requirement.Matches(labels.Set{})
	}
	return slices.ContainsFunc(values, func(value string) bool {
		return requirement.Matches(labels.Set{string(scope.ScopeName): value})
	})
}

// alias returns the older name of the quota resource that counts the objects of a kind; empty if
// there is none.
func alias(kind *scheme.Kind) corev1.ResourceName {
	if kind.Group != "" {
		return ""
	}
	switch name := corev1.ResourceName(kind.Resource); name {
	case corev1.ResourceConfigMaps, corev1.ResourceSecrets, corev1.ResourceReplicationControllers, corev1.ResourceQuotas:
		return name
	}
	return ""
}

func addService(usage corev1.ResourceList, service *corev1.Service) {
	ports := 0
	balancers := 0
	switch service.Spec.Type {
	case corev1.ServiceTypeNodePort:
		ports = len(service.Spec.Ports)
	case corev1.ServiceTypeLoadBalancer:
		balancers = 1
		ports = len(service.Spec.Ports)
		if allocate := service.Spec.AllocateLoadBalancerNodePorts; allocate != nil && !*allocate {
			ports = 0
			for _, port := range service.Spec.Ports {
				if port.NodePort != 0 {
					ports++
				}
			}
		}
	}
	usage[corev1.ResourceServices] = *resource.NewQuantity(1, resource.DecimalSI)
	usage[corev1.ResourceServicesNodePorts] = *resource.NewQuantity(int64(ports), resource.DecimalSI)
	usage[corev1.ResourceServicesLoadBalancers] = *resource.NewQuantity(int64(balancers), resource.DecimalSI)
}

// classInfix separates the name of a storage class from the resource that is limited.
const classInfix = ".storageclass.storage.k8s.io/"

func coversClaim(name corev1.ResourceName) bool {
	for _, of := range []corev1.ResourceName{corev1.ResourcePersistentVolumeClaims, corev1.ResourceRequestsStorage} {
		if name == of || strings.HasSuffix(string(name), classInfix+string(of)) {
			return true
		}
	}
	return false
}

func addClaim(usage corev1.ResourceList, claim *corev1.PersistentVolumeClaim) {
	class := ""
	if old, ok := claim.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		class = old
	} else if claim.Spec.StorageClassName != nil {
		class = *claim.Spec.StorageClassName
	}
	add := func(name corev1.ResourceName, value resource.Quantity) {
		usage[name] = value
		if class != "" {
			usage[corev1.ResourceName(class+classInfix+string(name))] = value
		}
	}
	add(corev1.ResourcePersistentVolumeClaims, *resource.NewQuantity(1, resource.DecimalSI))
	storage, ok := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if !ok {
		return
	}
	if allocated, ok := claim.Status.AllocatedResources[corev1.ResourceStorage]; ok && allocated.Cmp(storage) > 0 {
		storage = allocated
	}
	storage = storage.DeepCopy()
	storage.RoundUp(0) // Whole bytes, the only unit that a quota may hold.
	add(corev1.ResourceRequestsStorage, storage)
}

func claimInScope(claim *corev1.PersistentVolumeClaim, scope corev1.ScopedResourceSelectorRequirement) bool {
	if scope.ScopeName != corev1.ResourceQuotaScopeVolumeAttributesClass {
		return false
	}
	var classes []string
	for _, class := range []*string{claim.Spec.VolumeAttributesClassName, claim.Status.CurrentVolumeAttributesClassName} {
		if class != nil && *class != "" {
			classes = append(classes, *class)
		}
	}
	if modify := claim.Status.ModifyVolumeStatus; modify != nil && modify.TargetVolumeAttributesClassName != "" {
		classes = append(classes, modify.TargetVolumeAttributesClassName)
	}
	return selects(scope, classes)
}
