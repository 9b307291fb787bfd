// Package placement decides which node runs a pod. It is a pure function of the pod and a snapshot:
// filters exclude the nodes that cannot run the pod, and scores choose among the rest. A failure
// says in Kubernetes' words why no node is left (Kubernetes, pkg/scheduler/framework/plugins).
package placement

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/services/scheduler/internal/clusterview"
)

// Cluster is what placement looks at.
type Cluster struct {
	// Nodes are all nodes. They are only read.
	Nodes []*clusterview.Node
	// NamespaceLabels returns the labels of a namespace, for pod affinity by namespace selector;
	// nil when it does not exist.
	NamespaceLabels func(namespace string) labels.Set
	// Groups is used only to score nodes for pods without topology spread constraints; without its
	// functions such pods are not spread.
	Groups Groups
	// Storage is used only for pods with claims.
	Storage Storage
}

// Filter names a filter, as Kubernetes names its plugins.
type Filter string

// The filters, in the order in which they are applied: the first to refuse a node is the reason.
const (
	NodeName           Filter = "NodeName"
	NodeUnschedulable  Filter = "NodeUnschedulable"
	TaintToleration    Filter = "TaintToleration"
	NodeAffinity       Filter = "NodeAffinity"
	NodePorts          Filter = "NodePorts"
	NodeResourcesFit   Filter = "NodeResourcesFit"
	VolumeRestrictions Filter = "VolumeRestrictions"
	VolumeBinding      Filter = "VolumeBinding"
	VolumeZone         Filter = "VolumeZone"
	PodTopologySpread  Filter = "PodTopologySpread"
	InterPodAffinity   Filter = "InterPodAffinity"
	// Unsupported refuses pods that need a feature that this scheduler lacks.
	Unsupported Filter = "Unsupported"
)

// refusal says why a node, or every node, cannot take a pod; nil when it can.
type refusal struct {
	filter  Filter
	reasons []string
	// final says that removing pods from the node would not help.
	final bool
}

// filter checks one node. Filters that depend on the whole cluster are prepared once per pod.
type filter func(node *clusterview.Node) *refusal

// Place chooses a node for a pod. If there is none, the error is a *Failure.
//
// Among nodes with equal scores pick chooses one, given how many there are (rand.IntN).
func Place(pod *corev1.Pod, cluster Cluster, pick func(n int) int) (*clusterview.Node, error) {
	fit, failure := judge(pod, cluster)
	switch len(fit) {
	case 0:
		return nil, failure
	case 1:
		return fit[0], nil
	}
	return best(pod, cluster, fit, pick), nil
}

// judge returns the nodes that can run a pod, and a failure that says why the others cannot.
func judge(pod *corev1.Pod, cluster Cluster) ([]*clusterview.Node, *Failure) {
	if len(cluster.Nodes) == 0 {
		return nil, &Failure{}
	}
	failure := &Failure{Pod: pod, All: len(cluster.Nodes)}
	named, claims, whole := askPod(pod, cluster)
	if whole != nil {
		failure.whole = whole
		return nil, failure
	}
	filters, err := filtersFor(pod, named, claims, cluster)
	if err != nil {
		failure.whole = &refusal{filter: Unsupported, reasons: []string{err.Error()}, final: true}
		return nil, failure
	}
	var fit []*clusterview.Node
	for _, node := range cluster.Nodes {
		if r := ask(filters, node); r != nil {
			failure.refused = append(failure.refused, refused{node: node, refusal: r})
		} else {
			fit = append(fit, node)
		}
	}
	return fit, failure
}

// askPod refuses a pod for a reason that no node can change. Otherwise it returns the nodes that the
// pod names, and its claims.
func askPod(pod *corev1.Pod, cluster Cluster) (namedNodes, claimed, *refusal) {
	if len(pod.Spec.ResourceClaims) > 0 {
		return namedNodes{}, claimed{}, &refusal{filter: Unsupported, final: true, reasons: []string{"spec.resourceClaims is not supported"}}
	}
	named, whole := nodesByName(pod)
	if whole != nil {
		return namedNodes{}, claimed{}, whole
	}
	claims, whole := findClaims(pod, cluster.Storage)
	return named, claims, whole
}

func ask(filters []filter, node *clusterview.Node) *refusal {
	for _, f := range filters {
		if r := f(node); r != nil {
			return r
		}
	}
	return nil
}

func filtersFor(pod *corev1.Pod, named namedNodes, claims claimed, cluster Cluster) ([]filter, error) {
	spread, err := spreadFilter(pod, cluster)
	if err != nil {
		return nil, err
	}
	between, err := podAffinityFilter(pod, cluster)
	if err != nil {
		return nil, err
	}
	return slices.Concat([]filter{
		named.filter(), unschedulableFilter(pod), taintFilter(pod), nodeAffinityFilter(pod), portsFilter(pod), resourcesFilter(pod),
	}, claims.filters(pod, cluster), []filter{spread, between}), nil
}

// best returns the node with the highest score.
func best(pod *corev1.Pod, cluster Cluster, nodes []*clusterview.Node, pick func(n int) int) *clusterview.Node {
	totals := make([]int64, len(nodes))
	for _, s := range scorersFor(pod, cluster, nodes) {
		for i, score := range s.scores {
			totals[i] += s.weight * score
		}
	}
	highest := slices.Max(totals)
	var candidates []*clusterview.Node
	for i, total := range totals {
		if total == highest {
			candidates = append(candidates, nodes[i])
		}
	}
	return candidates[pick(len(candidates))]
}
