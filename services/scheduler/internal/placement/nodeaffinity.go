package placement

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/garboard/garboard/services/scheduler/internal/snapshot"
)

// term is a node selector term, made ready to match. An empty one matches nothing.
type term struct {
	labels labels.Selector
	// fields are requirements on metadata.name.
	fields []corev1.NodeSelectorRequirement
	empty  bool
}

func newTerm(t *corev1.NodeSelectorTerm) (term, error) {
	made := term{fields: t.MatchFields, empty: len(t.MatchExpressions)+len(t.MatchFields) == 0}
	selector := labels.NewSelector()
	for i := range t.MatchExpressions {
		e := &t.MatchExpressions[i]
		op, known := operators[e.Operator]
		if !known {
			return term{}, fmt.Errorf("node selector operator %q is not supported", e.Operator)
		}
		requirement, err := labels.NewRequirement(e.Key, op, e.Values)
		if err != nil {
			return term{}, fmt.Errorf("node selector key %q: %w", e.Key, err)
		}
		selector = selector.Add(*requirement)
	}
	made.labels = selector
	for i := range t.MatchFields {
		f := &t.MatchFields[i]
		if f.Key != "metadata.name" || (f.Operator != corev1.NodeSelectorOpIn && f.Operator != corev1.NodeSelectorOpNotIn) {
			return term{}, fmt.Errorf("node selector field %q with operator %q is not supported", f.Key, f.Operator)
		}
	}
	return made, nil
}

var operators = map[corev1.NodeSelectorOperator]selection.Operator{
	corev1.NodeSelectorOpIn:           selection.In,
	corev1.NodeSelectorOpNotIn:        selection.NotIn,
	corev1.NodeSelectorOpExists:       selection.Exists,
	corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
	corev1.NodeSelectorOpGt:           selection.GreaterThan,
	corev1.NodeSelectorOpLt:           selection.LessThan,
}

func (t term) matches(node *snapshot.Node) bool {
	if t.empty || !t.labels.Matches(labels.Set(node.Labels)) {
		return false
	}
	for i := range t.fields {
		f := &t.fields[i]
		if slices.Contains(f.Values, node.Name) != (f.Operator == corev1.NodeSelectorOpIn) {
			return false
		}
	}
	return true
}

// nodeAffinity is what a pod requires of labels and names of nodes.
type nodeAffinity struct {
	selector labels.Set
	// terms are alternatives; required says that there are any.
	terms    []term
	required bool
}

func newNodeAffinity(pod *corev1.Pod) (nodeAffinity, error) {
	a := nodeAffinity{selector: pod.Spec.NodeSelector}
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return a, nil
	}
	required := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		return a, nil
	}
	a.required = true
	for i := range required.NodeSelectorTerms {
		t, err := newTerm(&required.NodeSelectorTerms[i])
		if err != nil {
			return a, fmt.Errorf("spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution: %w", err)
		}
		a.terms = append(a.terms, t)
	}
	return a, nil
}

func (a nodeAffinity) matches(node *snapshot.Node) bool {
	if !a.selector.AsSelectorPreValidated().Matches(labels.Set(node.Labels)) {
		return false
	}
	return !a.required || slices.ContainsFunc(a.terms, func(t term) bool { return t.matches(node) })
}

func nodeAffinityFilter(pod *corev1.Pod) (filter, error) {
	affinity, err := newNodeAffinity(pod)
	if err != nil {
		return nil, err
	}
	return func(node *snapshot.Node) *refusal {
		if affinity.matches(node) {
			return nil
		}
		return &refusal{filter: NodeAffinity, reasons: []string{"node(s) didn't match Pod's node affinity/selector"}, final: true}
	}, nil
}

// preferredNodes scores nodes by the sum of the weights of the preferred terms that they match.
func preferredNodes(pod *corev1.Pod, nodes []*snapshot.Node) []float64 {
	scores := make([]float64, len(nodes))
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return scores
	}
	for _, preferred := range pod.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
		t, err := newTerm(&preferred.Preference)
		if err != nil {
			continue // A wish that nobody understands is no wish; validation refuses it anyway.
		}
		for i, node := range nodes {
			if t.matches(node) {
				scores[i] += float64(preferred.Weight)
			}
		}
	}
	return scores
}
