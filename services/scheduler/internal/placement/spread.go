package placement

import (
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/garboard/garboard/services/scheduler/internal/clusterview"
)

// constraint is a topology spread constraint of a pod, prepared for counting.
type constraint struct {
	key        string
	maxSkew    int
	minDomains int
	// counts reports whether a pod on a node is one of the pods to spread.
	counts func(*corev1.Pod) bool
	// self is 1 if the pod to place is one of them.
	self int
	// honor reports whether a node takes part, by the pod's node affinity and its tolerations.
	honor func(*clusterview.Node) bool
}

// constraints returns pod's constraints whose whenUnsatisfiable is what.
func constraints(pod *corev1.Pod, what corev1.UnsatisfiableConstraintAction) ([]constraint, error) {
	var made []constraint
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		if c.WhenUnsatisfiable != what {
			continue
		}
		one, err := newConstraint(pod, c)
		if err != nil {
			return nil, fmt.Errorf("spec.topologySpreadConstraints[%d]: %w", i, err)
		}
		made = append(made, one)
	}
	return made, nil
}

func newConstraint(pod *corev1.Pod, c *corev1.TopologySpreadConstraint) (constraint, error) {
	selector, err := selectorWithKeys(c.LabelSelector, pod.Labels, c.MatchLabelKeys)
	if err != nil {
		return constraint{}, err
	}
	made := spreadOver(c.TopologyKey, int(c.MaxSkew), pod, selector)
	suits := made.honor
	honorAffinity := c.NodeAffinityPolicy == nil || *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor
	honorTaints := c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor
	made.honor = func(node *clusterview.Node) bool {
		return (!honorAffinity || suits(node)) && (!honorTaints || untolerated(pod, node) == nil)
	}
	if c.MinDomains != nil {
		made.minDomains = int(*c.MinDomains)
	}
	if selector.Matches(labels.Set(pod.Labels)) {
		made.self = 1
	}
	return made, nil
}

// spreadOver returns a constraint on the pods that selector selects in pod's namespace. Nodes take
// part according to pod's node affinity.
func spreadOver(key string, maxSkew int, pod *corev1.Pod, selector labels.Selector) constraint {
	// A selector that selects everything counts nothing, except the pod to place.
	everything := selector.Empty()
	return constraint{
		key: key, maxSkew: maxSkew, minDomains: 1,
		counts: func(other *corev1.Pod) bool {
			return !everything && other.Namespace == pod.Namespace && other.DeletionTimestamp == nil && selector.Matches(labels.Set(other.Labels))
		},
		honor: suits(pod),
	}
}

// selectorWithKeys narrows a label selector to objects with the same values as own for keys. A nil
// selector selects nothing.
func selectorWithKeys(s *metav1.LabelSelector, own labels.Set, keys []string) (labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return nil, fmt.Errorf("labelSelector: %w", err)
	}
	if s == nil {
		return selector, nil
	}
	for _, key := range keys {
		value, has := own[key]
		if !has {
			continue
		}
		requirement, err := labels.NewRequirement(key, selection.In, []string{value})
		if err != nil {
			return nil, fmt.Errorf("label key %q: %w", key, err)
		}
		selector = selector.Add(*requirement)
	}
	return selector, nil
}

// count returns the number of pods in each domain, over the nodes that take part and have every
// key.
func (c *constraint) count(nodes []*clusterview.Node, keys []string) map[string]int {
	domains := map[string]int{}
	for _, node := range nodes {
		if !c.honor(node) || !hasAll(node, keys) {
			continue
		}
		domains[node.Labels[c.key]] += c.on(node)
	}
	return domains
}

// on counts the pods on one node.
func (c *constraint) on(node *clusterview.Node) int {
	n := 0
	for _, pod := range node.Pods {
		if c.counts(pod) {
			n++
		}
	}
	return n
}

func hasAll(node *clusterview.Node, keys []string) bool {
	return !slices.ContainsFunc(keys, func(key string) bool {
		_, has := node.Labels[key]
		return !has
	})
}

func keysOf(constraints []constraint) []string {
	keys := make([]string, len(constraints))
	for i := range constraints {
		keys[i] = constraints[i].key
	}
	return keys
}

func spreadFilter(pod *corev1.Pod, cluster Cluster) (filter, error) {
	hard, err := constraints(pod, corev1.DoNotSchedule)
	if err != nil || len(hard) == 0 {
		return func(*clusterview.Node) *refusal { return nil }, err
	}
	keys := keysOf(hard)
	counts, lowest := make([]map[string]int, len(hard)), make([]int, len(hard))
	for i := range hard {
		counts[i] = hard[i].count(cluster.Nodes, keys)
		lowest[i] = math.MaxInt
		for _, n := range counts[i] {
			lowest[i] = min(lowest[i], n)
		}
		if len(counts[i]) < hard[i].minDomains {
			lowest[i] = 0
		}
	}
	return func(node *clusterview.Node) *refusal {
		for i := range hard {
			value, has := node.Labels[hard[i].key]
			if !has {
				return &refusal{filter: PodTopologySpread, final: true, reasons: []string{
					"node(s) didn't match pod topology spread constraints (missing required label)",
				}}
			}
			if counts[i][value]+hard[i].self-lowest[i] > hard[i].maxSkew {
				return &refusal{filter: PodTopologySpread, reasons: []string{"node(s) didn't match pod topology spread constraints"}}
			}
		}
		return nil
	}, nil
}

// Constraints of pods that have none of their own (Kubernetes,
// podtopologyspread.systemDefaultConstraints).
const (
	hostSkew = 3
	zoneSkew = 5
)

// defaultConstraints spread the pods that belong together over hosts and zones.
func defaultConstraints(pod *corev1.Pod, cluster Cluster) []constraint {
	selector := cluster.Groups.selector(pod)
	if selector.Empty() {
		return nil
	}
	return []constraint{
		spreadOver(corev1.LabelHostname, hostSkew, pod, selector),
		spreadOver(corev1.LabelTopologyZone, zoneSkew, pod, selector),
	}
}

// spreadScores prefers domains with few of the pods to spread.
func spreadScores(pod *corev1.Pod, cluster Cluster, nodes []*clusterview.Node) []int64 {
	soft, err := constraints(pod, corev1.ScheduleAnyway)
	strict := true // Nodes that lack one of the keys are the worst.
	if len(pod.Spec.TopologySpreadConstraints) == 0 {
		soft, strict = defaultConstraints(pod, cluster), false
	}
	scores := make([]int64, len(nodes))
	if err != nil || len(soft) == 0 {
		return scores
	}
	var keys []string // that nodes must have to take part
	if strict {
		keys = keysOf(soft)
	}
	left := make([]bool, len(nodes))
	var candidates []*clusterview.Node
	for i, node := range nodes {
		if left[i] = !hasAll(node, keys); !left[i] {
			candidates = append(candidates, node)
		}
	}
	sums := make([]float64, len(nodes))
	for i := range soft {
		count, domains := soft[i].spreadCount(cluster.Nodes, candidates, keys)
		// The more domains there are, the less the skew of one of them matters.
		weight := math.Log(float64(domains + 2))
		for j, node := range nodes {
			if _, has := node.Labels[soft[i].key]; has && !left[j] {
				sums[j] += float64(count(node))*weight + float64(soft[i].maxSkew-1)
			}
		}
	}
	for i, sum := range sums {
		scores[i] = int64(math.Round(sum))
	}
	return reverseSpread(scores, left)
}

// spreadCount returns a function that counts the pods in a candidate's domain, and the number of
// the candidates' domains. Nodes without one of the keys do not take part. Among hosts, pods count
// even if their node takes no part.
func (c *constraint) spreadCount(nodes, candidates []*clusterview.Node, keys []string) (count func(*clusterview.Node) int, domains int) {
	if c.key == corev1.LabelHostname {
		return c.on, len(candidates)
	}
	counts := map[string]int{}
	for _, node := range candidates {
		counts[node.Labels[c.key]] = 0
	}
	for _, node := range nodes {
		value := node.Labels[c.key]
		if _, wanted := counts[value]; wanted && hasAll(node, keys) && c.honor(node) {
			counts[value] += c.on(node)
		}
	}
	return func(node *clusterview.Node) int { return counts[node.Labels[c.key]] }, len(counts)
}

// reverseSpread turns few pods into a high score, and scores the nodes in left 0.
func reverseSpread(scores []int64, left []bool) []int64 {
	lowest, highest := int64(math.MaxInt64), int64(0)
	for i, score := range scores {
		if !left[i] {
			lowest, highest = min(lowest, score), max(highest, score)
		}
	}
	for i := range scores {
		switch {
		case left[i]:
			scores[i] = 0
		case highest == 0:
			scores[i] = maxScore
		default:
			scores[i] = maxScore * (highest + lowest - scores[i]) / highest
		}
	}
	return scores
}
