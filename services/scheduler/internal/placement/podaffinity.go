package placement

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/services/scheduler/internal/clusterview"
)

// podTerm is a pod affinity term of a pod, prepared for matching other pods.
type podTerm struct {
	key        string
	weight     int64
	selector   labels.Selector
	namespaces []string
	// among selects further namespaces by their labels; nil for none.
	among           labels.Selector
	namespaceLabels func(string) labels.Set
}

func newPodTerm(owner *corev1.Pod, t *corev1.PodAffinityTerm, weight int64, cluster Cluster) (podTerm, error) {
	// The apiserver has merged matchLabelKeys and mismatchLabelKeys into the selector.
	selector, err := metav1.LabelSelectorAsSelector(t.LabelSelector)
	if err != nil {
		return podTerm{}, fmt.Errorf("labelSelector: %w", err)
	}
	made := podTerm{
		key: t.TopologyKey, weight: weight, selector: selector, namespaces: t.Namespaces,
		namespaceLabels: cluster.NamespaceLabels,
	}
	if t.NamespaceSelector != nil {
		if made.among, err = metav1.LabelSelectorAsSelector(t.NamespaceSelector); err != nil {
			return podTerm{}, fmt.Errorf("namespaceSelector: %w", err)
		}
	} else if len(t.Namespaces) == 0 {
		made.namespaces = []string{owner.Namespace}
	}
	return made, nil
}

func (t *podTerm) matches(pod *corev1.Pod) bool {
	if !slices.Contains(t.namespaces, pod.Namespace) {
		if t.among == nil || (!t.among.Empty() && (t.namespaceLabels == nil || !t.among.Matches(t.namespaceLabels(pod.Namespace)))) {
			return false
		}
	}
	return t.selector.Matches(labels.Set(pod.Labels))
}

// domain is a value of a topology key: all nodes with that label.
type domain struct{ key, value string }

func (t *podTerm) domain(node *clusterview.Node) (domain, bool) {
	value, has := node.Labels[t.key]
	return domain{t.key, value}, has
}

// required returns the required terms of a pod's affinity or anti-affinity.
func required(pod *corev1.Pod, anti bool, cluster Cluster) ([]podTerm, error) {
	terms, field := requiredTerms(pod, anti)
	made := make([]podTerm, 0, len(terms))
	for i := range terms {
		t, err := newPodTerm(pod, &terms[i], 1, cluster)
		if err != nil {
			return nil, fmt.Errorf("spec.affinity.%s.requiredDuringSchedulingIgnoredDuringExecution[%d]: %w", field, i, err)
		}
		made = append(made, t)
	}
	return made, nil
}

func requiredTerms(pod *corev1.Pod, anti bool) (terms []corev1.PodAffinityTerm, field string) {
	affinity := pod.Spec.Affinity
	switch {
	case anti && affinity != nil && affinity.PodAntiAffinity != nil:
		terms = affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	case !anti && affinity != nil && affinity.PodAffinity != nil:
		terms = affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	if anti {
		return terms, "podAntiAffinity"
	}
	return terms, "podAffinity"
}

// podAffinityFilter checks what the pod requires of other pods, and what they require of it.
func podAffinityFilter(pod *corev1.Pod, cluster Cluster) (filter, error) {
	affinity, err := required(pod, false, cluster)
	if err != nil {
		return nil, err
	}
	anti, err := required(pod, true, cluster)
	if err != nil {
		return nil, err
	}
	near, refusedByPod, refusedByOthers := map[domain]bool{}, map[domain]bool{}, map[domain]bool{}
	for _, node := range cluster.Nodes {
		for _, other := range node.Pods {
			if len(affinity) > 0 && matchesAll(affinity, other) {
				markDomains(near, affinity, node)
			}
			for i := range anti {
				if anti[i].matches(other) {
					markDomains(refusedByPod, anti[i:i+1], node)
				}
			}
			theirs, err := required(other, true, cluster)
			if err != nil {
				continue // It was admitted before; its terms cannot be interpreted.
			}
			for i := range theirs {
				if theirs[i].matches(pod) {
					markDomains(refusedByOthers, theirs[i:i+1], node)
				}
			}
		}
	}
	// Otherwise the first pod of a group that wants to be together would find no place.
	first := len(near) == 0 && matchesAll(affinity, pod)
	return func(node *clusterview.Node) *refusal {
		for i := range affinity {
			if d, has := affinity[i].domain(node); !has || (!near[d] && !first) {
				return &refusal{filter: InterPodAffinity, reasons: []string{"node(s) didn't match pod affinity rules"}, final: true}
			}
		}
		for i := range anti {
			if d, has := anti[i].domain(node); has && refusedByPod[d] {
				return &refusal{filter: InterPodAffinity, reasons: []string{"node(s) didn't match pod anti-affinity rules"}}
			}
		}
		for d := range refusedByOthers {
			if value, has := node.Labels[d.key]; has && value == d.value {
				return &refusal{filter: InterPodAffinity, reasons: []string{"node(s) didn't satisfy existing pods anti-affinity rules"}}
			}
		}
		return nil
	}, nil
}

func matchesAll(terms []podTerm, pod *corev1.Pod) bool {
	return !slices.ContainsFunc(terms, func(t podTerm) bool { return !t.matches(pod) })
}

func markDomains(in map[domain]bool, terms []podTerm, node *clusterview.Node) {
	for i := range terms {
		if d, has := terms[i].domain(node); has {
			in[d] = true
		}
	}
}

// wishes returns the preferred terms of a pod; anti-affinity terms have negative weights.
// Unreadable terms are ignored.
func wishes(pod *corev1.Pod, cluster Cluster) []podTerm {
	if pod.Spec.Affinity == nil {
		return nil
	}
	var made []podTerm
	add := func(terms []corev1.WeightedPodAffinityTerm, sign int64) {
		for i := range terms {
			if t, err := newPodTerm(pod, &terms[i].PodAffinityTerm, sign*int64(terms[i].Weight), cluster); err == nil {
				made = append(made, t)
			}
		}
	}
	if a := pod.Spec.Affinity.PodAffinity; a != nil {
		add(a.PreferredDuringSchedulingIgnoredDuringExecution, 1)
	}
	if a := pod.Spec.Affinity.PodAntiAffinity; a != nil {
		add(a.PreferredDuringSchedulingIgnoredDuringExecution, -1)
	}
	return made
}

// podAffinityScores sums the preferences of the pod for other pods and theirs for it. A required
// affinity term of a pod on a node counts as a preference of weight 1 for others to come
// (Kubernetes, HardPodAffinityWeight).
func podAffinityScores(pod *corev1.Pod, cluster Cluster, nodes []*clusterview.Node) []int64 {
	own := wishes(pod, cluster)
	sums := map[domain]int64{}
	note := func(terms []podTerm, about *corev1.Pod, node *clusterview.Node) {
		for i := range terms {
			if d, has := terms[i].domain(node); has && terms[i].matches(about) {
				sums[d] += terms[i].weight
			}
		}
	}
	for _, node := range cluster.Nodes {
		for _, other := range node.Pods {
			note(own, other, node)
			if other.Spec.Affinity == nil {
				continue
			}
			note(wishes(other, cluster), pod, node)
			if theirs, err := required(other, false, cluster); err == nil {
				note(theirs, pod, node)
			}
		}
	}
	scores := make([]int64, len(nodes))
	for i, node := range nodes {
		for d, sum := range sums {
			if value, has := node.Labels[d.key]; has && value == d.value {
				scores[i] += sum
			}
		}
	}
	return scores
}
