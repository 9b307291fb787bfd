package placement_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/scheduler/internal/clusterview"
	"github.com/garboard/garboard/services/scheduler/internal/placement"
)

// candidates returns the names of the nodes that a pod may go to, or the filters that refuse it.
func candidates(t *testing.T, p *corev1.Pod, nodes []*clusterview.Node) string {
	t.Helper()
	var names []string
	for i := range nodes {
		node, err := placement.Place(p, cluster(nodes...), func(n int) int { return i % n })
		if failure, ok := errors.AsType[*placement.Failure](err); ok {
			var filters []string
			for _, f := range failure.Filters() {
				filters = append(filters, string(f))
			}
			return "no: " + strings.Join(filters, " ")
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, node.Name)
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), " ")
}

// TestSpread checks which nodes and pods count for a hard constraint over zones.
func TestSpread(t *testing.T) {
	small := asks(t, "100m", "200Mi")
	ending := small.DeepCopy()
	ending.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	spread := func(more, spec string) *corev1.Pod {
		return pod(t, `{containers: [{name: c}], topologySpreadConstraints: [{maxSkew: 1, whenUnsatisfiable: DoNotSchedule,
			topologyKey: topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: web}}`+more+`}]`+spec+`}`)
	}
	const onlyA = `, nodeSelector: {kubernetes.io/hostname: a}`
	for _, tt := range []struct {
		name  string
		pod   *corev1.Pod
		nodes []*clusterview.Node
		want  string
	}{
		{"one more than the emptiest", spread("", ""), []*clusterview.Node{host("a", "z1", small), host("b", "z2"), host("c", "z3", small)}, "b"},
		{"pods of a zone count together", spread("", ""), []*clusterview.Node{host("a", "z1", small), host("a2", "z1"), host("b", "z2")}, "b"},
		{"pods of another namespace do not count", spread("", ""), []*clusterview.Node{host("a", "z1", inNamespace(small, "other")), host("b", "z2", small)}, "a"},
		{"pods that end do not count", spread("", ""), []*clusterview.Node{host("a", "z1", ending), host("b", "z2", small)}, "a"},
		{"pods that are not selected do not count", spread("", ""), []*clusterview.Node{host("a", "z1", labelled(small, "app", "db")), host("b", "z2", small)}, "a"},
		{"a pod that does not select itself", labelled(spread("", ""), "app", "db"), []*clusterview.Node{host("a", "z1", small), host("b", "z2", asks(t, "2", "4Gi"))}, "a"},
		{"zones that the selector excludes do not count", spread("", onlyA), []*clusterview.Node{host("a", "z1", small), host("b", "z2")}, "a"},
		{"they do if it is ignored", spread(", nodeAffinityPolicy: Ignore", onlyA), []*clusterview.Node{host("a", "z1", small), host("b", "z2")},
			"no: NodeAffinity PodTopologySpread"},
		{"tainted zones count", spread("", ""), []*clusterview.Node{host("a", "z1", small), tainted(host("b", "z2"), corev1.TaintEffectNoSchedule)},
			"no: PodTopologySpread TaintToleration"},
		{"they do not if taints are honored", spread(", nodeTaintsPolicy: Honor", ""),
			[]*clusterview.Node{host("a", "z1", small), tainted(host("b", "z2"), corev1.TaintEffectNoSchedule)}, "a"},
		{"more domains are wanted than there are", spread(", minDomains: 2", ""), []*clusterview.Node{host("a", "z1", small)}, "no: PodTopologySpread"},
		{"as many domains as wanted", spread(", minDomains: 2", ""), []*clusterview.Node{host("a", "z1", small), host("b", "z2", small)}, "a b"},
		{"only nodes without the label", spread("", ""), []*clusterview.Node{changed(host("a", "z1"), func(n *corev1.Node) { n.Labels = nil })},
			"no: PodTopologySpread"},
		{"an empty value is a zone", spread("", ""), []*clusterview.Node{host("a", "", small), host("b", "z2")}, "b"},
		{"pods on nodes without the label do not count", spread("", ""), []*clusterview.Node{
			host("a", "z1"), changed(host("b", "z2", small, small), func(n *corev1.Node) { delete(n.Labels, corev1.LabelTopologyZone) }),
		}, "a"},
		{"a selector that cannot be read", pod(t, `{containers: [{name: c}], topologySpreadConstraints: [{maxSkew: 1, whenUnsatisfiable: DoNotSchedule,
			topologyKey: zone, labelSelector: {matchExpressions: [{key: a, operator: Like}]}}]}`), []*clusterview.Node{host("a", "z1")}, "no: Unsupported"},
		{"a soft one has no effect then", pod(t, `{containers: [{name: c}], topologySpreadConstraints: [{maxSkew: 1, whenUnsatisfiable: ScheduleAnyway,
			topologyKey: zone, labelSelector: {matchExpressions: [{key: a, operator: Like}]}}]}`), []*clusterview.Node{host("a", "z1"), host("b", "z1")}, "a b"},
		{"no selector selects nothing", pod(t, `{containers: [{name: c}], topologySpreadConstraints: [{maxSkew: 1, whenUnsatisfiable: DoNotSchedule,
			topologyKey: topology.kubernetes.io/zone}]}`), []*clusterview.Node{host("a", "z1", small)}, "a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := candidates(t, tt.pod, tt.nodes); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestPodAffinity checks which pods match a required term.
func TestPodAffinity(t *testing.T) {
	small := asks(t, "100m", "200Mi")
	term := func(side, term string) *corev1.Pod {
		return pod(t, fmt.Sprintf(`{containers: [{name: c}], affinity: {%s: {requiredDuringSchedulingIgnoredDuringExecution: [%s]}}}`, side, term))
	}
	both := func(p *corev1.Pod, labels map[string]string) *corev1.Pod {
		p = p.DeepCopy()
		p.Labels = labels
		return p
	}
	db := labelled(small, "app", "db")
	const near, away, key = "podAffinity", "podAntiAffinity", "topologyKey: kubernetes.io/hostname, "
	for _, tt := range []struct {
		name  string
		pod   *corev1.Pod
		nodes []*clusterview.Node
		want  string
	}{
		{"two terms, each matched by another pod", term(near, `{`+key+`labelSelector: {matchLabels: {app: db}}}, {`+key+`labelSelector: {matchLabels: {app: web}}}`),
			[]*clusterview.Node{host("a", "z", db, small)}, "no: InterPodAffinity"},
		{"two terms, matched by one pod", term(near, `{`+key+`labelSelector: {matchLabels: {app: db}}}, {`+key+`labelSelector: {matchLabels: {tier: x}}}`),
			[]*clusterview.Node{host("a", "z", both(small, map[string]string{"app": "db", "tier": "x"})), host("b", "z")}, "a"},
		{"the first of a group needs the key", term(near, `{topologyKey: rack, labelSelector: {matchLabels: {app: web}}}`),
			[]*clusterview.Node{host("a", "z")}, "no: InterPodAffinity"},
		{"it is not the first in its group", term(near, `{`+key+`labelSelector: {matchLabels: {app: web}}}`),
			[]*clusterview.Node{tainted(host("a", "z", small), corev1.TaintEffectNoSchedule), host("b", "z")}, "no: InterPodAffinity TaintToleration"},
		{"keys that the apiserver has merged into the selector", both(term(near, `{`+key+`labelSelector: {matchLabels: {app: web}}, matchLabelKeys: [rev]}`), map[string]string{"app": "web", "rev": "2"}),
			[]*clusterview.Node{host("a", "z", both(small, map[string]string{"app": "web", "rev": "1"})), host("b", "z")}, "a"},
		{"the same for other values", both(term(away, `{`+key+`labelSelector: {matchLabels: {app: web}}, mismatchLabelKeys: [rev]}`), map[string]string{"app": "web", "rev": "2"}),
			[]*clusterview.Node{host("a", "z"), host("b", "z", both(small, map[string]string{"app": "web", "rev": "2"}))}, "a"},
		{"every namespace", term(away, `{`+key+`labelSelector: {matchLabels: {app: db}}, namespaceSelector: {}}`),
			[]*clusterview.Node{host("a", "z", inNamespace(db, "unknown")), host("b", "z")}, "b"},
		{"only its own namespace", term(away, `{`+key+`labelSelector: {matchLabels: {app: db}}}`),
			[]*clusterview.Node{host("a", "z", inNamespace(db, "other"))}, "a"},
		{"no selector matches nothing", term(away, `{topologyKey: kubernetes.io/hostname}`), []*clusterview.Node{host("a", "z", small)}, "a"},
		{"anti-affinity needs the key on the node", term(away, `{topologyKey: rack, labelSelector: {}}`), []*clusterview.Node{host("a", "z", small)}, "a"},
		{"others keep it away from their zone", small, []*clusterview.Node{
			host("a", "z1", term(away, `{topologyKey: topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: web}}}`)), host("b", "z1"), host("c", "z2", asks(t, "2", "4Gi")),
		}, "c"},
		{"others of another namespace do not", small, []*clusterview.Node{
			host("a", "z1", inNamespace(term(away, `{`+key+`labelSelector: {matchLabels: {app: web}}}`), "other")),
		}, "a"},
		{"terms of others that cannot be read have no effect", small, []*clusterview.Node{
			host("a", "z1", term(away, `{`+key+`labelSelector: {matchExpressions: [{key: app, operator: Like}]}}`)),
		}, "a"},
		{"a term that cannot be read", term(away, `{`+key+`labelSelector: {matchExpressions: [{key: app, operator: Like}]}}`),
			[]*clusterview.Node{host("a", "z")}, "no: Unsupported"},
		{"a namespace selector that cannot be read", term(near, `{`+key+`namespaceSelector: {matchExpressions: [{key: app, operator: Like}]}}`),
			[]*clusterview.Node{host("a", "z")}, "no: Unsupported"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := candidates(t, tt.pod, tt.nodes); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestRandomClusters places pods one after another in random clusters, and checks what must hold
// whatever the filters and scores do: no node gets more than it has, a cordoned node gets nothing,
// a pod finds a place if and only if a node has room, and neither the pod nor the nodes change.
func TestRandomClusters(t *testing.T) {
	const cpus, slots = 4000, 10 // of each host, as host makes it
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 1))
		var nodes []*clusterview.Node
		used := map[string]int64{}
		for i := range 1 + random.IntN(5) {
			node := host(fmt.Sprint("n", i), fmt.Sprint("z", i%2))
			if random.IntN(4) == 0 {
				node = cordoned(node)
			}
			nodes = append(nodes, node)
		}
		for range 40 {
			wanted := int64(100 * (1 + random.IntN(20)))
			p := asks(t, fmt.Sprintf("%dm", wanted), "1Mi")
			before := p.DeepCopy()
			room := slices.ContainsFunc(nodes, func(n *clusterview.Node) bool {
				return !n.Spec.Unschedulable && used[n.Name]+wanted <= cpus && len(n.Pods) < slots
			})
			node, err := placement.Place(p, cluster(nodes...), random.IntN)
			if (err == nil) != room {
				t.Fatalf("seed %d: room for %dm is %t, but placing returns %v", seed, wanted, room, err)
			}
			if fmt.Sprint(p) != fmt.Sprint(before) {
				t.Fatalf("seed %d: placing changed the pod", seed)
			}
			if err != nil {
				if !strings.HasPrefix(err.Error(), fmt.Sprintf("0/%d nodes are available: ", len(nodes))) {
					t.Fatalf("seed %d: the failure is %q", seed, err)
				}
				continue
			}
			used[node.Name] += wanted
			if node.Spec.Unschedulable || used[node.Name] > cpus || len(node.Pods) >= slots {
				t.Fatalf("seed %d: node %s has %dm and %d pods", seed, node.Name, used[node.Name], len(node.Pods))
			}
			i := slices.Index(nodes, node)
			nodes[i] = with(node.Node, append(slices.Clone(node.Pods), p)...)
		}
	}
}
