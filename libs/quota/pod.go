package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/garboard/garboard/libs/podresources"
)

// requestsPrefix is the prefix of requested resources in the names of quota resources.
const requestsPrefix = corev1.DefaultResourceRequestsPrefix

func coversPod(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage,
		corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsEphemeralStorage,
		corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage:
		return true
	}
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) ||
		strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix) ||
		strings.HasPrefix(string(name), requestsPrefix) && !native(name)
}

// native reports whether a resource is Kubernetes' own, rather than an extended resource.
func native(name corev1.ResourceName) bool {
	return !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

func addPod(usage corev1.ResourceList, pod *corev1.Pod) {
	if ended(pod) {
		return
	}
	usage[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	maps.Copy(usage, compute(podresources.Requests(pod), podresources.Limits(pod)))
}

// ended reports whether a pod holds no resources: it has completed, or its termination grace period
// has passed, as on a lost node.
func ended(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return true
	}
	if pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil {
		return false
	}
	grace := time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
	return time.Now().After(pod.DeletionTimestamp.Add(grace))
}

// compute returns requests and limits under the names of quota resources.
func compute(requests, limits corev1.ResourceList) corev1.ResourceList {
	usage := corev1.ResourceList{}
	for name, value := range requests {
		switch {
		case name == corev1.ResourceCPU, name == corev1.ResourceMemory, name == corev1.ResourceEphemeralStorage,
			strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
			usage[name] = value
			usage[requestsPrefix+name] = value
		case !native(name) && !strings.HasPrefix(string(name), requestsPrefix):
			usage[requestsPrefix+name] = value
		}
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if value, ok := limits[name]; ok {
			usage["limits."+name] = value
		}
	}
	return usage
}

// Unspecified returns an error, worded as Kubernetes', that names the limited resources that a pod
// must request or limit in each container, but does not. If CPU or memory is limited, a container
// that leaves it open could not be charged. It returns nil if nothing is missing.
func Unspecified(pod *corev1.Pod, limited []corev1.ResourceName) error {
	lacking := map[corev1.ResourceName][]string{}
	whole := corev1.ResourceList{}
	if pod.Spec.Resources != nil {
		whole = compute(pod.Spec.Resources.Requests, pod.Spec.Resources.Limits)
	}
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			c := &containers[i]
			specified := compute(c.Resources.Requests, c.Resources.Limits)
			for _, name := range limited {
				if !mustSpecify(name) {
					continue
				}
				_, ofContainer := specified[name]
				_, ofPod := whole[name]
				if !ofContainer && !ofPod && !slices.Contains(lacking[name], c.Name) {
					lacking[name] = append(lacking[name], c.Name)
				}
			}
		}
	}
	if len(lacking) == 0 {
		return nil
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(lacking)) {
		slices.Sort(lacking[name])
		parts = append(parts, fmt.Sprintf("%s for: %s", name, strings.Join(lacking[name], ",")))
	}
	return fmt.Errorf("must specify %s", strings.Join(parts, "; "))
}

func mustSpecify(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory,
		corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory:
		return true
	}
	return false
}

func podInScope(pod *corev1.Pod, scope corev1.ScopedResourceSelectorRequirement) bool {
	terminating := Terminating(pod)
	switch scope.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return terminating
	case corev1.ResourceQuotaScopeNotTerminating:
		return !terminating
	case corev1.ResourceQuotaScopeBestEffort:
		return bestEffort(pod)
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !bestEffort(pod)
	case corev1.ResourceQuotaScopePriorityClass:
		var class []string
		if pod.Spec.PriorityClassName != "" {
			class = []string{pod.Spec.PriorityClassName}
		}
		return selects(scope, class)
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return crossesNamespaces(pod.Spec.Affinity)
	}
	return false
}

// bestEffort reports whether nothing in a pod requests or limits CPU or memory.
func bestEffort(pod *corev1.Pod) bool {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass == corev1.PodQOSBestEffort
	}
	asks := func(r corev1.ResourceRequirements) bool {
		for _, list := range []corev1.ResourceList{r.Requests, r.Limits} {
			if list.Cpu().Sign() > 0 || list.Memory().Sign() > 0 {
				return true
			}
		}
		return false
	}
	if pod.Spec.Resources != nil && asks(*pod.Spec.Resources) {
		return false
	}
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		if slices.ContainsFunc(containers, func(c corev1.Container) bool { return asks(c.Resources) }) {
			return false
		}
	}
	return true
}

// crossesNamespaces reports whether a pod has affinity or anti-affinity terms for pods of other
// namespaces.
func crossesNamespaces(affinity *corev1.Affinity) bool {
	if affinity == nil {
		return false
	}
	var terms []corev1.PodAffinityTerm
	add := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		terms = append(terms, required...)
		for _, term := range preferred {
			terms = append(terms, term.PodAffinityTerm)
		}
	}
	if near := affinity.PodAffinity; near != nil {
		add(near.RequiredDuringSchedulingIgnoredDuringExecution, near.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if far := affinity.PodAntiAffinity; far != nil {
		add(far.RequiredDuringSchedulingIgnoredDuringExecution, far.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return slices.ContainsFunc(terms, func(t corev1.PodAffinityTerm) bool {
		return len(t.Namespaces) > 0 || t.NamespaceSelector != nil
	})
}

// Terminating reports whether a pod ends by itself, so that it is in the scope Terminating.
func Terminating(pod *corev1.Pod) bool {
	return pod.Spec.ActiveDeadlineSeconds != nil && *pod.Spec.ActiveDeadlineSeconds >= 0
}
