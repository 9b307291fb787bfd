package status

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/garboard/garboard/services/nodeagent/internal/allocation"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

// The minimums that cgroups round up to, in millicores (kubelet, cm.MinShares and
// cm.MinMilliCPULimit).
const (
	leastRequest = 2
	leastLimit   = 10
)

// resources returns the resources of a container. c has those it was created with; what the runtime
// reports for a running container is newer. It returns nil when they are not known.
func resources(c *corev1.Container, present *runtime.Container, old *corev1.ContainerStatus) *corev1.ResourceRequirements {
	reported := present.Resources
	if reported == nil && present.Annotations[allocation.Annotation] == "" && (old == nil || old.Resources == nil) {
		return nil
	}
	has := c.Resources.DeepCopy()
	if reported == nil || present.State != runtime.Running {
		return has
	}
	set := func(list corev1.ResourceList, name corev1.ResourceName, quantity *resource.Quantity) {
		if before, ok := list[name]; !ok || before.Cmp(*quantity) != 0 {
			list[name] = *quantity
		}
	}
	if has.Limits != nil {
		if reported.CPUPeriod > 0 && reported.CPUQuota > 0 {
			limit := reported.CPUQuota * 1000 / reported.CPUPeriod
			if max(limit, has.Limits.Cpu().MilliValue()) > leastLimit {
				set(has.Limits, corev1.ResourceCPU, resource.NewMilliQuantity(limit, resource.DecimalSI))
			}
		}
		if reported.MemoryLimit > 0 {
			set(has.Limits, corev1.ResourceMemory, resource.NewQuantity(reported.MemoryLimit, resource.BinarySI))
		}
	}
	if has.Requests != nil && reported.CPUShares > 0 {
		request := int64(math.Ceil(float64(reported.CPUShares) * 1000 / 1024))
		if max(request, has.Requests.Cpu().MilliValue()) > leastRequest {
			set(has.Requests, corev1.ResourceCPU, resource.NewMilliQuantity(request, resource.DecimalSI))
		}
	}
	return has
}
