package replicacalculator

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcehelpers "k8s.io/component-helpers/resource"

	"github.com/garboard/garboard/services/controllers/internal/metricsapi"
	"github.com/garboard/garboard/services/controllers/internal/podstate"
)

// groups are the pods of a workload by what their metrics are worth.
type groups struct {
	// ready is how many have a metric that counts.
	ready int
	// unready have none that counts yet, missing have none, and ignored are about to go.
	unready, missing, ignored []string
}

func (c *Calculator) group(pods []*corev1.Pod, metrics metricsapi.PodMetrics, of corev1.ResourceName) (g groups) {
	now := time.Now()
	for _, pod := range pods {
		metric, found := metrics[pod.Name]
		switch {
		case pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed:
			g.ignored = append(g.ignored, pod.Name)
		case pod.Status.Phase == corev1.PodPending:
			g.unready = append(g.unready, pod.Name)
		case !found:
			g.missing = append(g.missing, pod.Name)
		case of == corev1.ResourceCPU && c.begins(pod, metric, now):
			g.unready = append(g.unready, pod.Name)
		default:
			g.ready++
		}
	}
	return g
}

// begins reports whether what a pod uses of the CPU says nothing yet, for it is still starting.
func (c *Calculator) begins(pod *corev1.Pod, metric metricsapi.PodMetric, now time.Time) bool {
	ready, start := podstate.Condition(pod, corev1.PodReady), pod.Status.StartTime
	if ready == nil || start == nil {
		return true
	}
	isUnready := ready.Status == corev1.ConditionFalse
	if start.Add(c.CPUInitialization).After(now) {
		return isUnready || metric.Timestamp.Before(ready.LastTransitionTime.Add(metric.Window))
	}
	return isUnready && start.Add(c.ReadinessDelay).After(ready.LastTransitionTime.Time)
}

// requests returns what each pod requests of a resource, in thousandths: in one of its containers, or, if
// container is empty, in all that run for as long as the pod does, unless the pod itself has requests.
func requests(pods []*corev1.Pod, container string, of corev1.ResourceName) (map[string]int64, error) {
	found := make(map[string]int64, len(pods))
	for _, pod := range pods {
		request, err := podRequest(pod, container, of)
		if err != nil {
			return nil, err
		}
		found[pod.Name] = request
	}
	return found, nil
}

func podRequest(pod *corev1.Pod, container string, of corev1.ResourceName) (int64, error) {
	if container == "" && resourcehelpers.IsPodLevelRequestsSet(pod) {
		request, found := resourcehelpers.PodRequests(pod, resourcehelpers.PodResourcesOptions{})[of]
		if !found {
			return 0, fmt.Errorf("missing pod-level request for %s in Pod %s", of, pod.Name)
		}
		return request.MilliValue(), nil
	}
	var total int64
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		request, done, err := containerRequest(pod, c, container, of)
		if done || err != nil {
			return request, err
		}
		total = add(total, request)
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways {
			continue
		}
		request, done, err := containerRequest(pod, c, container, of)
		if done || err != nil {
			return request, err
		}
		total = add(total, request)
	}
	if container != "" {
		return 0, fmt.Errorf("container %s not found in Pod %s", container, pod.Name)
	}
	return total, nil
}

// containerRequest returns what a container requests of a resource, in thousandths; 0 if another is wanted. It is
// all that counts if done is true.
func containerRequest(pod *corev1.Pod, c *corev1.Container, wanted string, of corev1.ResourceName) (request int64, done bool, err error) {
	if wanted != "" && wanted != c.Name {
		return 0, false, nil
	}
	quantity, found := c.Resources.Requests[of]
	if !found {
		return 0, false, fmt.Errorf("missing request for %s in container %s of Pod %s", of, c.Name, pod.Name)
	}
	return quantity.MilliValue(), wanted != "", nil
}
