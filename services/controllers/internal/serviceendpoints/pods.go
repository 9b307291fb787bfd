// Package serviceendpoints answers what the controllers of Endpoints and EndpointSlices ask: which pods
// are behind a Service, with which ports, and when they last changed.
package serviceendpoints

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/podstate"
)

// BatchPeriod is for how long a change of a Service's endpoints may wait for others while those of a hundred Services
// come, as with kube-controller-manager's --endpointslice-updates-batch-period. It is a sixth of what Kubernetes allows
// until the nodes know of a change:
// https://github.com/kubernetes/community/blob/main/sig-scalability/slos/network_programming_latency.md
const BatchPeriod = 5 * time.Second

// Selecting reports whether a Service takes its endpoints from pods. Those without a selector and those
// of type ExternalName do not.
func Selecting(svc *corev1.Service) bool {
	return svc.Spec.Type != corev1.ServiceTypeExternalName && len(svc.Spec.Selector) > 0
}

// Selects reports whether the selector of a Service matches a pod of its namespace. An empty selector
// matches none.
func Selects(svc *corev1.Service, pod *corev1.Pod) bool {
	for key, value := range svc.Spec.Selector {
		if got, ok := pod.Labels[key]; !ok || got != value {
			return false
		}
	}
	return len(svc.Spec.Selector) > 0
}

// Pods returns the pods that a Service selects, sorted by name.
func Pods(pods informer.SharedInformer[*corev1.Pod], svc *corev1.Service) ([]*corev1.Pod, error) {
	index, value := byLabel, ""
	if first, found := selectorOf(svc); found {
		value = first
	} else {
		index, value = informer.NamespaceIndex, svc.Namespace
	}
	all, err := pods.Indexer().ByIndex(index, value)
	if err != nil {
		return nil, fmt.Errorf("finding the pods of Service %s/%s: %w", svc.Namespace, svc.Name, err)
	}
	var found []*corev1.Pod
	for _, pod := range all {
		if Selects(svc, pod) {
			found = append(found, pod)
		}
	}
	slices.SortFunc(found, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// Watches returns a watch of pods that asks for a reconcile of every Service whose endpoints a change
// concerns, and those by which pods and Services find each other.
func Watches(pods informer.SharedInformer[*corev1.Pod], services *controller.Objects[*corev1.Service]) []controller.Watch {
	return []controller.Watch{
		controller.Indexed(pods, byLabel, labelsOf), controller.Indexed(services.SharedInformer, bySelector, servicesOf),
		watch(pods, services),
	}
}

func watch(pods informer.SharedInformer[*corev1.Pod], services *controller.Objects[*corev1.Service]) controller.Watch {
	return controller.On(pods, func(q controller.Queue, old, now *corev1.Pod) {
		before, after := old != nil && Included(old), now != nil && Included(now)
		if !before && !after {
			return
		}
		changed := before != after || differ(old, now)
		if !changed && maps.Equal(old.Labels, now.Labels) {
			return
		}
		candidates(services.Indexer(), func(svc *corev1.Service) {
			was, is := before && Selects(svc, old), after && Selects(svc, now)
			if was != is || is && changed {
				q.Add(svc)
			}
		}, old, now)
	})
}

// Included reports whether a pod, which may be terminating, can be an endpoint: it has an address, and
// has not ended (Kubernetes, endpointslice/util.ShouldPodBeInEndpoints).
func Included(pod *corev1.Pod) bool {
	return !podstate.Ended(pod) && (pod.Status.PodIP != "" || len(pod.Status.PodIPs) > 0)
}

// differ reports whether two states of a pod, both of which can be endpoints, make different ones.
func differ(old, now *corev1.Pod) bool {
	return (old.DeletionTimestamp == nil) != (now.DeletionTimestamp == nil) || podstate.Ready(old) != podstate.Ready(now) ||
		!slices.Equal(old.Status.PodIPs, now.Status.PodIPs) || old.Spec.NodeName != now.Spec.NodeName ||
		old.Spec.Hostname != now.Spec.Hostname || old.Spec.Subdomain != now.Spec.Subdomain
}

// Hostname returns the hostname under which the DNS of a headless Service knows a pod; empty if it has
// none there.
func Hostname(svc *corev1.Service, pod *corev1.Pod) string {
	if pod.Spec.Subdomain == svc.Name && pod.Namespace == svc.Namespace {
		return pod.Spec.Hostname
	}
	return ""
}

// Port returns the number of the container port to which a Service's port leads; false if the pod has
// none of that name and protocol.
func Port(pod *corev1.Pod, port *corev1.ServicePort) (number int32, found bool) {
	if port.TargetPort.Type == intstr.Int {
		return port.TargetPort.IntVal, true
	}
	named := func(containers []corev1.Container, runs func(*corev1.Container) bool) bool {
		for i := range containers {
			for _, p := range containers[i].Ports {
				if p.Name == port.TargetPort.StrVal && p.Protocol == port.Protocol && runs(&containers[i]) {
					number = p.ContainerPort
					return true
				}
			}
		}
		return false
	}
	found = named(pod.Spec.Containers, func(*corev1.Container) bool { return true }) ||
		named(pod.Spec.InitContainers, func(c *corev1.Container) bool {
			return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		})
	return number, found
}
