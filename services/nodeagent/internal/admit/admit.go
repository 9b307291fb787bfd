// Package admit decides whether the node takes a pod: whether it fits and may be here, and
// whether the node agent can do all that its spec asks for.
package admit

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
)

// Rejection says why the node does not take a pod. Reason becomes the failed pod's, Message
// the text of the Event.
type Rejection struct{ Reason, Message string }

// Check decides whether node takes pod beside others, the pods that it has taken already and
// that have not ended. nil means that it does.
func Check(pod *corev1.Pod, others []*corev1.Pod, node *corev1.Node) *Rejection {
	if !matches(pod, node) {
		return &Rejection{"NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"}
	}
	if limit, ok := node.Status.Allocatable[corev1.ResourcePods]; ok && int64(len(others)) >= limit.Value() {
		return outOf(corev1.ResourcePods, 1, int64(len(others)), limit.Value())
	}
	want := Requests(pod)
	names := make([]corev1.ResourceName, 0, len(want))
	for name := range want {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		asked := want[name]
		if asked.IsZero() {
			continue
		}
		var used resource.Quantity
		for _, other := range others {
			amount := Requests(other)[name]
			used.Add(amount)
		}
		limit := node.Status.Allocatable[name]
		value := (*resource.Quantity).Value
		if name == corev1.ResourceCPU {
			value = (*resource.Quantity).MilliValue
		}
		if value(&used)+value(&asked) > value(&limit) {
			return outOf(name, value(&asked), value(&used), value(&limit))
		}
	}
	return nil
}

func outOf(name corev1.ResourceName, asked, used, limit int64) *Rejection {
	return &Rejection{
		"OutOf" + string(name),
		fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d", name, asked, used, limit),
	}
}

// Requests is what a pod asks for in all: its containers and sidecars together, or more if an
// init container needs more at its time, and the overhead (Kubernetes, resource.PodRequests).
func Requests(pod *corev1.Pod) corev1.ResourceList {
	total := corev1.ResourceList{}
	for i := range pod.Spec.Containers {
		add(total, pod.Spec.Containers[i].Resources.Requests)
	}
	sidecars, most := corev1.ResourceList{}, corev1.ResourceList{}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(total, c.Resources.Requests)
			add(sidecars, c.Resources.Requests)
			grow(most, sidecars)
			continue
		}
		atOnce := corev1.ResourceList{}
		add(atOnce, sidecars)
		add(atOnce, c.Resources.Requests)
		grow(most, atOnce)
	}
	grow(total, most)
	add(total, pod.Spec.Overhead)
	return total
}

func add(to, more corev1.ResourceList) {
	for name, amount := range more {
		sum := to[name].DeepCopy()
		sum.Add(amount)
		to[name] = sum
	}
}

func grow(to, least corev1.ResourceList) {
	for name, amount := range least {
		if present, ok := to[name]; !ok || present.Cmp(amount) < 0 {
			to[name] = amount.DeepCopy()
		}
	}
}

// matches says whether the node is one that the pod's nodeSelector and required node
// affinity allow.
func matches(pod *corev1.Pod, node *corev1.Node) bool {
	if !labels.SelectorFromSet(pod.Spec.NodeSelector).Matches(labels.Set(node.Labels)) {
		return false
	}
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return true
	}
	return slices.ContainsFunc(affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms,
		func(term corev1.NodeSelectorTerm) bool {
			if len(term.MatchExpressions)+len(term.MatchFields) == 0 {
				return false // An empty term matches nothing.
			}
			return all(term.MatchExpressions, node.Labels) && all(term.MatchFields, map[string]string{"metadata.name": node.Name})
		})
}

func all(requirements []corev1.NodeSelectorRequirement, set map[string]string) bool {
	for _, r := range requirements {
		if !one(r, set) {
			return false
		}
	}
	return true
}

func one(r corev1.NodeSelectorRequirement, set map[string]string) bool {
	value, has := set[r.Key]
	switch r.Operator {
	case corev1.NodeSelectorOpIn:
		return has && slices.Contains(r.Values, value)
	case corev1.NodeSelectorOpNotIn:
		return !has || !slices.Contains(r.Values, value)
	case corev1.NodeSelectorOpExists:
		return has
	case corev1.NodeSelectorOpDoesNotExist:
		return !has
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if !has || len(r.Values) != 1 {
			return false
		}
		mine, err1 := strconv.ParseInt(value, 10, 64)
		limit, err2 := strconv.ParseInt(r.Values[0], 10, 64)
		if err1 != nil || err2 != nil {
			return false
		}
		if r.Operator == corev1.NodeSelectorOpGt {
			return mine > limit
		}
		return mine < limit
	}
	return false
}
