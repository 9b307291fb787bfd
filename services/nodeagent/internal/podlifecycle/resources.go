package podlifecycle

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/garboard/garboard/libs/quantity"
	"github.com/garboard/garboard/services/nodeagent/internal/podactions"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

// The limits of CPU shares and quota, and the OOM scores, are the kubelet's.
const (
	minShares       = 2
	maxShares       = 262144
	quotaPeriod     = 100000
	minQuota        = 1000
	scoreGuaranteed = -997
	scoreBestEffort = 1000
)

// Priorities of system pods (scheduling/v1).
const (
	systemCriticalPriority = 2000000000
	systemNodeCritical     = "system-node-critical"
)

// resources returns the cgroup settings of a container.
func (l *Lifecycle) resources(pod *corev1.Pod, c *corev1.Container, node *corev1.Node) runtime.Resources {
	r := l.settings(c.Resources.Requests, c.Resources.Limits)
	r.OOMScoreAdj = oomScore(pod, c, node)
	r.HugePageLimits = l.hugePages(c)
	if l.cfg.CgroupV2 {
		// Nothing is reserved: that needs cgroups of pods.
		r.Unified["memory.min"], r.Unified["memory.low"] = "0", "0"
	}
	return r
}

// podResources returns the settings of all containers of a pod together.
func (l *Lifecycle) podResources(pod *corev1.Pod) runtime.Resources {
	options := resourcehelper.PodResourcesOptions{ExcludeOverhead: true}
	return l.settings(resourcehelper.PodRequests(pod, options), resourcehelper.PodLimits(pod, options))
}

// overhead returns the settings of what a pod takes beyond its containers.
func (l *Lifecycle) overhead(pod *corev1.Pod) runtime.Resources {
	if pod.Spec.Overhead == nil {
		return runtime.Resources{}
	}
	return l.settings(pod.Spec.Overhead, pod.Spec.Overhead)
}

func (l *Lifecycle) settings(requests, limits corev1.ResourceList) runtime.Resources {
	limit := limits.Cpu().MilliValue()
	request, requested := requests[corev1.ResourceCPU]
	if !requested {
		request = limits[corev1.ResourceCPU]
	}
	r := runtime.Resources{
		CPUShares:   min(max(request.MilliValue()*1024/1000, minShares), maxShares),
		CPUPeriod:   quotaPeriod,
		MemoryLimit: limits.Memory().Value(),
	}
	if limit > 0 {
		r.CPUQuota = max(limit*quotaPeriod/1000, minQuota)
	}
	if l.cfg.CgroupV2 {
		// The processes of a container die together when it runs out of memory.
		r.Unified = map[string]string{"memory.oom.group": "1"}
	}
	return r
}

// hugePages limits the pages of each size that the kernel has: to nothing, if the container has no
// limit of its own.
func (l *Lifecycle) hugePages(c *corev1.Container) []runtime.HugePageLimit {
	var limits []runtime.HugePageLimit
	for _, size := range l.cfg.HugePageSizes {
		limit := runtime.HugePageLimit{PageSize: size}
		for name, amount := range c.Resources.Limits {
			if pageSize(name) == size {
				limit.Limit = uint64(max(0, amount.Value())) //nolint:gosec // it is not negative
			}
		}
		limits = append(limits, limit)
	}
	return limits
}

// pageSize returns the size of the pages that a resource counts, as in cgroups ("2MB"); empty if the
// resource is not huge pages.
func pageSize(name corev1.ResourceName) string {
	text, ok := strings.CutPrefix(string(name), corev1.ResourceHugePagesPrefix)
	if !ok {
		return ""
	}
	size, err := quantity.Parse(text)
	if err != nil {
		return ""
	}
	amount, units := size.Value(), []string{"B", "KB", "MB", "GB", "TB", "PB"}
	unit := 0
	for amount >= 1024 && unit < len(units)-1 {
		amount, unit = amount/1024, unit+1
	}
	return fmt.Sprintf("%d%s", amount, units[unit])
}

// oomScore makes containers that requested less of the node's memory die first (kubelet, qos
// policy).
func oomScore(pod *corev1.Pod, c *corev1.Container, node *corev1.Node) int64 {
	if pod.Spec.PriorityClassName == systemNodeCritical && pod.Spec.Priority != nil && *pod.Spec.Priority >= systemCriticalPriority {
		return scoreGuaranteed
	}
	switch pod.Status.QOSClass {
	case corev1.PodQOSGuaranteed:
		return scoreGuaranteed
	case corev1.PodQOSBestEffort:
		return scoreBestEffort
	}
	capacity := node.Status.Capacity.Memory().Value()
	if capacity == 0 {
		return scoreBestEffort - 1
	}
	score := func(c *corev1.Container) int64 { return 1000 - 1000*c.Resources.Requests.Memory().Value()/capacity }
	own := score(c)
	if podactions.IsSidecar(c) {
		// A sidecar does not die before the containers that it serves.
		most := score(&pod.Spec.Containers[0])
		for i := range pod.Spec.Containers {
			most = max(most, score(&pod.Spec.Containers[i]))
		}
		own = min(own, most)
	}
	return min(max(own, 1000+scoreGuaranteed), scoreBestEffort-1)
}
