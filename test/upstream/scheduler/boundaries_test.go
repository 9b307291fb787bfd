package upstream

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/garboard/garboard/services/scheduler/internal/conformance"
)

// Boundaries returns cases at the limits of each resource and each count.
func Boundaries() []*conformance.Case {
	cases := []*conformance.Case{{Pod: plainPod("p")}, {Pod: plainPod("p"), Nodes: []*corev1.Node{plainNode("n0")}}}
	cases = append(cases, resourceLimits()...)
	cases = append(cases, hardSpreads()...)
	return append(cases, softSpreads()...)
}

// web selects all plain pods.
var web = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}

func resourceLimits() (cases []*conformance.Case) {
	for _, limits := range [][]string{
		// The resource and requests. A node has 4 of each, in its unit, and the pod on it takes 1.
		{"cpu", "0", "1m", "2999m", "3", "3001m", "4", "4001m", "9223372036854775"},
		{"memory", "0", "1", "3221225471", "3Gi", "3221225473", "4Gi", "4294967297", "9223372036854775807", "1m"},
		{"ephemeral-storage", "0", "3Gi", "3221225473", "4294967297"},
		{"hugepages-2Mi", "0", "6Mi", "8Mi", "10Mi"},
		{"example.com/gpu", "0", "3", "4", "5"},
		{"example.com/none", "0", "1"},
	} {
		for _, amount := range limits[1:] {
			c := &conformance.Case{Pod: plainPod("p"), Nodes: []*corev1.Node{plainNode("n0"), plainNode("n1")}, Pods: []*corev1.Pod{plainPod("e")}}
			c.Pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceName(limits[0]): resource.MustParse(amount)}
			c.Pods[0].Spec.NodeName = "n0"
			c.Pods[0].Spec.Containers[0].Resources.Requests = corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi"),
				corev1.ResourceEphemeralStorage: resource.MustParse("1Gi"), "hugepages-2Mi": resource.MustParse("2Mi"), "example.com/gpu": resource.MustParse("1"),
			}
			cases = append(cases, c)
		}
	}
	for room := range 4 {
		c := crowded(2, 0)
		c.Nodes[0].Status.Allocatable[corev1.ResourcePods] = *resource.NewQuantity(int64(room), resource.DecimalSI)
		cases = append(cases, c)
	}
	return cases
}

func hardSpreads() (cases []*conformance.Case) {
	for first := range 4 {
		for second := range 3 {
			for _, skew := range []int32{1, 2, 3} {
				for _, domains := range []*int32{nil, ptr.To[int32](2), ptr.To[int32](3)} {
					c := crowded(first, second)
					c.Pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
						MaxSkew: skew, MinDomains: domains, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
						LabelSelector: web,
					}}
					cases = append(cases, c)
				}
			}
		}
	}
	return cases
}

// softSpreads returns cases with a third node in the first's zone that lacks a label.
func softSpreads() (cases []*conformance.Case) {
	for counts := range 3 * 3 * 3 {
		for _, keys := range [][]string{{corev1.LabelTopologyZone}, {corev1.LabelTopologyZone, "rack"}, {corev1.LabelHostname, "rack"}, nil} {
			c := crowded(counts%3*2, counts/3%3)
			third := plainNode("n2")
			third.Labels[corev1.LabelTopologyZone] = "zone-n0"
			c.Nodes[0].Labels["rack"], c.Nodes[1].Labels["rack"] = "r0", "r1"
			c.Nodes = append(c.Nodes, third)
			for i := range counts / 9 * 2 {
				pod := plainPod(fmt.Sprintf("f%d", i))
				pod.Spec.NodeName = "n2"
				c.Pods = append(c.Pods, pod)
			}
			for _, key := range keys {
				c.Pod.Spec.TopologySpreadConstraints = append(c.Pod.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
					MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: web,
				})
			}
			if keys == nil {
				c.Services = []*corev1.Service{{
					ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}, Spec: corev1.ServiceSpec{Selector: web.MatchLabels},
				}}
			}
			cases = append(cases, c)
		}
	}
	return cases
}

// crowded returns a case with two nodes and some pods on each.
func crowded(first, second int) *conformance.Case {
	c := &conformance.Case{Pod: plainPod("p"), Nodes: []*corev1.Node{plainNode("n0"), plainNode("n1")}}
	for i := range first + second {
		pod := plainPod(fmt.Sprintf("e%d", i))
		pod.Spec.NodeName = "n0"
		if i >= first {
			pod.Spec.NodeName = "n1"
		}
		c.Pods = append(c.Pods, pod)
	}
	return c
}

func plainPod(name string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{"app": "web"}}}
	pod.Spec.Containers = []corev1.Container{{Name: "c"}}
	return pod
}

func plainNode(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelTopologyZone: "zone-" + name}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("4Gi"), corev1.ResourcePods: resource.MustParse("110"),
			corev1.ResourceEphemeralStorage: resource.MustParse("4Gi"), "hugepages-2Mi": resource.MustParse("8Mi"), "example.com/gpu": resource.MustParse("4"),
		}},
	}
}
