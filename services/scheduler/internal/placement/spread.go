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
	selector, err := selectorWithKeys(c.LabelSelector, pod.Labels, c.MatchLabelKeys, nil)
	if err != nil {
		return constraint{}, err
	}
	suits := suits(pod)
	honorAffinity := c.NodeAffinityPolicy == nil || *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor
	honorTaints := c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor
	made := constraint{
		key: c.TopologyKey, maxSkew: int(c.MaxSkew), minDomains: 1,
		counts: func(other *corev1.Pod) bool {
			return other.Namespace == pod.Namespace && other.DeletionTimestamp == nil && selector.Matches(labels.Set(other.Labels))
		},
		honor: func(node *clusterview.Node) bool {
			return (!honorAffinity || suits(node)) && (!honorTaints || untolerated(pod, node) == nil)
		},
	}
	if c.MinDomains != nil {
		made.minDomains = int(*c.MinDomains)
	}
	if selector.Matches(labels.Set(pod.Labels)) {
		made.self = 1
	}
	return made, nil
}

// selectorWithKeys narrows a label selector. It selects only objects with the same values as own
// for the keys in same, and with other values for the keys in different. A nil selector selects
// nothing.
func selectorWithKeys(s *metav1.LabelSelector, own labels.Set, same, different []string) (labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return nil, fmt.Errorf("labelSelector: %w", err)
	}
	if s == nil {
		return selector, nil
	}
	add := func(keys []string, op selection.Operator) error {
		for _, key := range keys {
			value, has := own[key]
			if !has {
				continue
			}
			requirement, err := labels.NewRequirement(key, op, []string{value})
			if err != nil {
				return fmt.Errorf("label key %q: %w", key, err)
			}
			selector = selector.Add(*requirement)
		}
		return nil
	}
	if err := add(same, selection.In); err != nil {
		return nil, err
	}
	if err := add(different, selection.NotIn); err != nil {
		return nil, err
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
		if !hasAll(node, keys) {
			return &refusal{filter: PodTopologySpread, final: true, reasons: []string{
				"node(s) didn't match pod topology spread constraints (missing required label)",
			}}
		}
		for i := range hard {
			if counts[i][node.Labels[hard[i].key]]+hard[i].self-lowest[i] > hard[i].maxSkew {
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

// defaultConstraints spread the pods of one controller over hosts and zones.
func defaultConstraints(pod *corev1.Pod) []constraint {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return nil
	}
	siblings := func(other *corev1.Pod) bool {
		ref := metav1.GetControllerOfNoCopy(other)
		return ref != nil && ref.UID == owner.UID && other.DeletionTimestamp == nil
	}
	all := func(*clusterview.Node) bool { return true }
	return []constraint{
		{key: corev1.LabelHostname, maxSkew: hostSkew, counts: siblings, honor: all},
		{key: corev1.LabelTopologyZone, maxSkew: zoneSkew, counts: siblings, honor: all},
	}
}

// spreadScores prefers domains with few of the pods to spread.
func spreadScores(pod *corev1.Pod, cluster Cluster, nodes []*clusterview.Node) []float64 {
	soft, err := constraints(pod, corev1.ScheduleAnyway)
	strict := true // Nodes that lack one of the keys are the worst.
	if len(pod.Spec.TopologySpreadConstraints) == 0 {
		soft, strict = defaultConstraints(pod), false
	}
	scores := make([]float64, len(nodes))
	if err != nil || len(soft) == 0 {
		return scores
	}
	keys := keysOf(soft)
	left := make([]bool, len(nodes))
	for i, node := range nodes {
		left[i] = strict && !hasAll(node, keys)
	}
	for i := range soft {
		c := &soft[i]
		required := []string{c.key}
		if strict {
			required = keys
		}
		counts := c.count(cluster.Nodes, required)
		// The more domains there are, the less the skew of one of them matters.
		weight := math.Log(float64(len(counts)) + 2)
		for j, node := range nodes {
			if value, has := node.Labels[c.key]; has && !left[j] {
				scores[j] += float64(counts[value])*weight + float64(c.maxSkew-1)
			}
		}
	}
	return reverseSpread(scores, left)
}

// reverseSpread turns few pods into a high score, and scores the nodes in left 0.
func reverseSpread(scores []float64, left []bool) []float64 {
	lowest, highest := math.Inf(1), math.Inf(-1)
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
