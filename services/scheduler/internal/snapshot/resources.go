package snapshot

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
)

// The requests that scoring takes for containers that name none, so that they are spread too
// (Kubernetes, pkg/scheduler/util.DefaultMilliCPURequest and DefaultMemoryRequest).
const (
	defaultMilliCPU = 100
	defaultMemory   = 200 * 1024 * 1024
)

// Resources are amounts: CPU in thousandths of a core, everything else in its own unit.
type Resources map[corev1.ResourceName]int64

// Add adds other to r.
func (r Resources) Add(other Resources) {
	for name, amount := range other {
		r[name] += amount
	}
}

// resourcesOf takes the amounts from an API list.
func resourcesOf(list corev1.ResourceList) Resources {
	r := make(Resources, len(list))
	for name, quantity := range list {
		if name == corev1.ResourceCPU {
			r[name] = quantity.MilliValue()
		} else {
			r[name] = quantity.Value()
		}
	}
	return r
}

// Requests is what a pod takes of a node (Kubernetes, component-helpers/resource.PodRequests):
// its containers and sidecars together, or the most that it needs while one of the init
// containers runs, if that is more; then the overhead. What the pod asks for as a whole
// replaces the sum of its containers for those resources.
func Requests(pod *corev1.Pod) Resources { return requests(pod, resourceRequests) }

// NonZeroRequests is Requests for scoring: a container that asks for no CPU or memory counts
// with a small amount.
func NonZeroRequests(pod *corev1.Pod) Resources { return requests(pod, nonZeroRequests) }

func resourceRequests(c *corev1.Container) Resources { return resourcesOf(c.Resources.Requests) }

func nonZeroRequests(c *corev1.Container) Resources {
	r := resourcesOf(c.Resources.Requests)
	if _, asked := r[corev1.ResourceCPU]; !asked {
		r[corev1.ResourceCPU] = defaultMilliCPU
	}
	if _, asked := r[corev1.ResourceMemory]; !asked {
		r[corev1.ResourceMemory] = defaultMemory
	}
	return r
}

func requests(pod *corev1.Pod, of func(*corev1.Container) Resources) Resources {
	total, most, sidecars := Resources{}, Resources{}, Resources{}
	for i := range pod.Spec.Containers {
		total.Add(of(&pod.Spec.Containers[i]))
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		need := of(c)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			// A sidecar runs on beside everything that is started after it.
			sidecars.Add(need)
			total.Add(need)
			need = maps.Clone(sidecars)
		} else {
			need.Add(sidecars)
		}
		raise(most, need)
	}
	raise(total, most)
	if pod.Spec.Resources != nil {
		maps.Copy(total, resourcesOf(pod.Spec.Resources.Requests))
	}
	total.Add(resourcesOf(pod.Spec.Overhead))
	return total
}

// raise raises r to at least floor.
func raise(r, floor Resources) {
	for name, amount := range floor {
		r[name] = max(r[name], amount)
	}
}
