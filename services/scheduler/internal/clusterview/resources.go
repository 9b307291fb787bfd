package clusterview

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/garboard/garboard/libs/hostports"
	"github.com/garboard/garboard/libs/podresources"
)

// Requests that scoring assumes for containers that request nothing, so that they are spread too
// (Kubernetes, pkg/scheduler/util.DefaultMilliCPURequest and DefaultMemoryRequest).
const (
	defaultMilliCPU = 100
	defaultMemory   = 200 * 1024 * 1024
)

// Resources are amounts: CPU in thousandths of a core, everything else in its own unit.
type Resources map[corev1.ResourceName]int64

// Largest is the largest amount that counts; larger ones count as this. Sums and products of scores
// do not overflow.
const Largest = 1 << 55

// Add adds other to r.
func (r Resources) Add(other Resources) {
	for name, amount := range other {
		r[name] = min(r[name]+amount, Largest)
	}
}

// resourcesOf converts an API list.
func resourcesOf(list corev1.ResourceList) Resources {
	r := make(Resources, len(list))
	for name, quantity := range list {
		scale, unit := resource.Scale(0), int64(1)
		if name == corev1.ResourceCPU {
			scale, unit = resource.Milli, 1000
		}
		if quantity.CmpInt64(Largest/unit) > 0 {
			r[name] = Largest
		} else {
			r[name] = quantity.ScaledValue(scale)
		}
	}
	return r
}

// Requests returns what a pod takes from a node.
func Requests(pod *corev1.Pod) Resources { return resourcesOf(podresources.Requests(pod)) }

// NonZeroRequests is what a pod without a node counts for the score of the room that is left. A
// container that requests no CPU or memory counts with a small amount. As in Kubernetes the requests
// of the pod as a whole do not count.
func NonZeroRequests(pod *corev1.Pod) Resources {
	spec := pod.Spec
	spec.Resources = nil
	return resourcesOf(podresources.RequestsOr(&corev1.Pod{Spec: spec}, nonZero()))
}

// placedNonZeroRequests is NonZeroRequests for a pod on a node, which takes requested. There the
// requests of the pod as a whole count, and if it has any, no container counts with a small amount
// of a resource that is requested (Kubernetes, framework.PodInfo).
func placedNonZeroRequests(pod *corev1.Pod, requested Resources) Resources {
	missing := nonZero()
	if resourcehelper.IsPodLevelRequestsSet(pod) {
		for name := range requested {
			delete(missing, name)
		}
	}
	return resourcesOf(podresources.RequestsOr(pod, missing))
}

// nonZero returns the small amounts.
func nonZero() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(defaultMilliCPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(defaultMemory, resource.BinarySI),
	}
}

// sized is a pod with what it takes, computed once for each state of the pod.
type sized struct {
	*corev1.Pod
	requested, nonZero Resources
	ports              []hostports.Port
}

func newSized(pod *corev1.Pod) sized {
	requested := Requests(pod)
	return sized{Pod: pod, requested: requested, nonZero: placedNonZeroRequests(pod, requested), ports: hostports.Of(pod)}
}
