// Package conformance compares how the scheduler judges nodes with how Kubernetes judges them: which
// filter refuses a node and why, the scores by plugin, and the message of a failure. A nested module
// asks Kubernetes' own code and saves its answers as test data, which the tests of this package
// replay.
package conformance

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// Case is one question: where can a pod run?
type Case struct {
	// Pod is the pod to place.
	Pod   *corev1.Pod    `json:"pod"`
	Nodes []*corev1.Node `json:"nodes"`
	// Pods are the pods on the nodes.
	Pods                   []*corev1.Pod                   `json:"pods,omitempty"`
	Namespaces             []*corev1.Namespace             `json:"namespaces,omitempty"`
	Services               []*corev1.Service               `json:"services,omitempty"`
	ReplicationControllers []*corev1.ReplicationController `json:"replicationControllers,omitempty"`
	ReplicaSets            []*appsv1.ReplicaSet            `json:"replicaSets,omitempty"`
	StatefulSets           []*appsv1.StatefulSet           `json:"statefulSets,omitempty"`
	Claims                 []*corev1.PersistentVolumeClaim `json:"claims,omitempty"`
	Volumes                []*corev1.PersistentVolume      `json:"volumes,omitempty"`
	Classes                []*storagev1.StorageClass       `json:"classes,omitempty"`
	Drivers                []*storagev1.CSIDriver          `json:"drivers,omitempty"`
	Capacities             []*storagev1.CSIStorageCapacity `json:"capacities,omitempty"`
}

// Answer says where the pod of a Case can run.
type Answer struct {
	// Message is the message of the Event FailedScheduling; empty if a node can run the pod.
	Message string `json:"message,omitempty"`
	// Nodes are the verdicts by the node's name.
	Nodes map[string]Verdict `json:"nodes,omitempty"`
}

// Verdict is how a node suits the pod.
type Verdict struct {
	// Filter is the plugin that refuses the node; empty if the node can run the pod, or if the pod
	// itself is the reason.
	Filter string `json:"filter,omitempty"`
	// Reasons are sorted.
	Reasons []string `json:"reasons,omitempty"`
	// Final says that removing pods from the node would not help.
	Final bool `json:"final,omitempty"`
	// Scores are the normalized scores by plugin, and Total is their weighted sum. Plugins with the
	// score 0 are left out.
	Scores map[string]int64 `json:"scores,omitempty"`
	Total  int64            `json:"total,omitempty"`
}

// Vector is a case with Kubernetes' answer.
type Vector struct {
	Case   Case   `json:"case"`
	Answer Answer `json:"answer"`
}

// preemption begins the part of a message that says whether removing pods would help.
const preemption = " preemption: "

// Comparable reports whether the part of a message on preemption is compared. It is not if a pod of
// c could be preempted: the scheduler preempts no pods and says so.
func (c *Case) Comparable() bool {
	return !slices.ContainsFunc(c.Pods, func(p *corev1.Pod) bool { return priority(p) < priority(c.Pod) })
}

func priority(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// Difference is one point in which two answers differ.
type Difference struct {
	// About is "message", "filter", "reasons", "final", "total" or "score" and a plugin.
	About string
	// Node is empty for the message.
	Node         string
	Ours, Theirs any
}

// String returns the difference in one line.
func (d Difference) String() string {
	return fmt.Sprintf("%s %s: ours %v, Kubernetes %v", d.Node, d.About, d.Ours, d.Theirs)
}

// Compare returns the differences between two answers.
func Compare(ours, theirs Answer) []Difference {
	var found []Difference
	compare := func(about, node string, a, b any) {
		if !reflect.DeepEqual(a, b) {
			found = append(found, Difference{About: about, Node: node, Ours: a, Theirs: b})
		}
	}
	compare("message", "", ours.Message, theirs.Message)
	nodes := maps.Clone(theirs.Nodes)
	maps.Copy(nodes, ours.Nodes)
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		a, b := ours.Nodes[node], theirs.Nodes[node]
		compare("filter", node, a.Filter, b.Filter)
		compare("reasons", node, strings.Join(a.Reasons, ", "), strings.Join(b.Reasons, ", "))
		compare("final", node, a.Final, b.Final)
		plugins := maps.Clone(b.Scores)
		if plugins == nil {
			plugins = map[string]int64{}
		}
		maps.Copy(plugins, a.Scores)
		for _, plugin := range slices.Sorted(maps.Keys(plugins)) {
			compare("score "+plugin, node, a.Scores[plugin], b.Scores[plugin])
		}
		compare("total", node, a.Total, b.Total)
	}
	return found
}
