package placement_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/garboard/garboard/services/scheduler/internal/clusterview"
	"github.com/garboard/garboard/services/scheduler/internal/placement"
)

// host returns a node of 4 CPUs, 8 GiB and 10 pods in a zone, with pods on it.
func host(name, zone string, pods ...*corev1.Pod) *clusterview.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelTopologyZone: zone,
		}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"),
			corev1.ResourcePods: resource.MustParse("10"),
		}},
	}
	return with(node, pods...)
}

func with(node *corev1.Node, pods ...*corev1.Pod) *clusterview.Node {
	byUID := map[types.UID]*corev1.Pod{}
	for i, pod := range pods {
		byUID[types.UID(fmt.Sprint(node.Name, "-", i))] = pod
	}
	return clusterview.NewNode(node, byUID)
}

// changed returns a copy of a node with a change.
func changed(n *clusterview.Node, change func(*corev1.Node)) *clusterview.Node {
	node := n.DeepCopy()
	change(node)
	return with(node, n.Pods...)
}

// saying returns a node whose Ready condition has the given status; it has none if that is empty.
func saying(n *clusterview.Node, status corev1.ConditionStatus) *clusterview.Node {
	return changed(n, func(node *corev1.Node) {
		if status != "" {
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
		}
	})
}

func tainted(n *clusterview.Node, effect corev1.TaintEffect) *clusterview.Node {
	return changed(n, func(node *corev1.Node) {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "k", Value: "v", Effect: effect})
	})
}

func cordoned(n *clusterview.Node) *clusterview.Node {
	return changed(n, func(node *corev1.Node) { node.Spec.Unschedulable = true })
}

// pod parses a pod's spec from YAML; its labels are app=web.
func pod(t testing.TB, spec string) *corev1.Pod {
	t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", Labels: map[string]string{"app": "web"}}}
	if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
		t.Fatalf("%v in\n%s", err, spec)
	}
	return p
}

func asks(t testing.TB, cpu, memory string) *corev1.Pod {
	return pod(t, fmt.Sprintf("containers: [{name: c, resources: {requests: {cpu: %q, memory: %q}}}]", cpu, memory))
}

// affine returns a pod that requires nodes.
func affine(t testing.TB, selector string) *corev1.Pod {
	return pod(t, `{containers: [{name: c}], affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: `+selector+`}}}`)
}

func labelled(p *corev1.Pod, key, value string) *corev1.Pod {
	p = p.DeepCopy()
	p.Labels = map[string]string{key: value}
	return p
}

func inNamespace(p *corev1.Pod, namespace string) *corev1.Pod {
	p = p.DeepCopy()
	p.Namespace = namespace
	return p
}

func namespaceLabels(name string) labels.Set {
	if name == "team-a" {
		return labels.Set{"team": "a"}
	}
	return nil
}

func first(int) int { return 0 }

func cluster(nodes ...*clusterview.Node) placement.Cluster {
	return placement.Cluster{Nodes: nodes, NamespaceLabels: namespaceLabels}
}

const noVictims = " preemption: 0/%d nodes are available: %d No preemption victims found for incoming pod."
const noHelp = " preemption: 0/%d nodes are available: %d Preemption is not helpful for scheduling."

// TestFailures checks the message of each refusal, word for word as kube-scheduler writes it.
func TestFailures(t *testing.T) {
	small := asks(t, "100m", "1Mi")
	for _, tt := range []struct {
		name    string
		pod     *corev1.Pod
		nodes   []*clusterview.Node
		want    string
		filters []placement.Filter
	}{
		{"no nodes", small, nil, "no nodes available to schedule pods", nil},
		{"cordoned", small, []*clusterview.Node{cordoned(host("a", "z"))},
			"0/1 nodes are available: 1 node(s) were unschedulable." + fmt.Sprintf(noHelp, 1, 1),
			[]placement.Filter{placement.NodeUnschedulable}},
		{"cordoned and tainted counts once", small, []*clusterview.Node{tainted(cordoned(host("a", "z")), corev1.TaintEffectNoSchedule)},
			"0/1 nodes are available: 1 node(s) were unschedulable." + fmt.Sprintf(noHelp, 1, 1),
			[]placement.Filter{placement.NodeUnschedulable}},
		{"nodes that are not ready, before they are tainted", small, []*clusterview.Node{
			saying(host("a", "z"), corev1.ConditionFalse), saying(host("b", "z"), corev1.ConditionUnknown),
		}, "0/2 nodes are available: 2 node(s) had untolerated taint(s)." +
			" preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
			[]placement.Filter{placement.TaintToleration}},
		{"full nodes and tainted ones", asks(t, "2", "1Gi"), []*clusterview.Node{
			host("a", "z", asks(t, "3", "1Gi")), tainted(host("b", "z"), corev1.TaintEffectNoSchedule), tainted(host("c", "z"), corev1.TaintEffectNoExecute),
		}, "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s)." +
			" preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling.",
			[]placement.Filter{placement.NodeResourcesFit, placement.TaintToleration}},
		{"two resources of one node", asks(t, "2", "7Gi"), []*clusterview.Node{host("a", "z", asks(t, "3", "2Gi"))},
			"0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory." + fmt.Sprintf(noVictims, 1, 1),
			[]placement.Filter{placement.NodeResourcesFit}},
		{"more than any node has", asks(t, "100", "1Mi"), []*clusterview.Node{host("a", "z"), host("b", "z")},
			"0/2 nodes are available: 2 Insufficient cpu." + fmt.Sprintf(noHelp, 2, 2),
			[]placement.Filter{placement.NodeResourcesFit}},
		{"unknown resource", pod(t, `containers: [{name: c, resources: {requests: {example.com/gpu: 1}}}]`), []*clusterview.Node{host("a", "z")},
			"0/1 nodes are available: 1 Insufficient example.com/gpu." + fmt.Sprintf(noHelp, 1, 1),
			[]placement.Filter{placement.NodeResourcesFit}},
		{"too many pods", small, []*clusterview.Node{changed(host("a", "z", small), func(n *corev1.Node) {
			n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("1")
		})}, "0/1 nodes are available: 1 Too many pods." + fmt.Sprintf(noVictims, 1, 1), []placement.Filter{placement.NodeResourcesFit}},
		{"node selector", pod(t, `{nodeSelector: {disk: ssd}, containers: [{name: c}]}`), []*clusterview.Node{host("a", "z")},
			"0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector." + fmt.Sprintf(noHelp, 1, 1),
			[]placement.Filter{placement.NodeAffinity}},
		{"named nodes", affine(t, `{nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [b]}]}]}`), []*clusterview.Node{host("a", "z"), cordoned(host("b", "z"))},
			"0/2 nodes are available: 1 node(s) didn't satisfy plugin(s) [NodeAffinity], 1 node(s) were unschedulable." + fmt.Sprintf(noHelp, 2, 2),
			[]placement.Filter{placement.NodeAffinity, placement.NodeUnschedulable}},
		{"two names for one node", affine(t, `{nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [a]}, {key: metadata.name, operator: In, values: [b]}]}]}`),
			[]*clusterview.Node{host("a", "z"), host("b", "z")},
			"0/2 nodes are available: pod affinity terms conflict." + fmt.Sprintf(noHelp, 2, 2), []placement.Filter{placement.NodeAffinity}},
		{"a name in the pod", pod(t, `{nodeName: b, containers: [{name: c}]}`), []*clusterview.Node{host("a", "z"), cordoned(host("b", "z"))},
			"0/2 nodes are available: 1 node(s) didn't satisfy plugin(s) [NodeName], 1 node(s) were unschedulable." + fmt.Sprintf(noHelp, 2, 2),
			[]placement.Filter{placement.NodeName, placement.NodeUnschedulable}},
		{"host ports", pod(t, `containers: [{name: c, ports: [{containerPort: 80, hostPort: 80}]}]`),
			[]*clusterview.Node{host("a", "z", pod(t, `containers: [{name: c, ports: [{containerPort: 8080, hostPort: 80, hostIP: 0.0.0.0, protocol: TCP}]}]`))},
			"0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports." + fmt.Sprintf(noVictims, 1, 1),
			[]placement.Filter{placement.NodePorts}},
		{"another constraint first", pod(t, `{containers: [{name: c}], topologySpreadConstraints: [
			{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, minDomains: 9, labelSelector: {matchLabels: {app: web}}},
			{maxSkew: 1, topologyKey: rack, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}]}`),
			[]*clusterview.Node{changed(host("a", "z", small), func(n *corev1.Node) { n.Labels["rack"] = "r" }), host("b", "z", small), changed(host("c", "z"), func(n *corev1.Node) { n.Labels = nil })},
			"0/3 nodes are available: 1 node(s) didn't match pod topology spread constraints, 2 node(s) didn't match pod topology spread constraints (missing required label)." +
				" preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling.",
			[]placement.Filter{placement.PodTopologySpread}},
		{"never preempts", pod(t, `{preemptionPolicy: Never, nodeSelector: {disk: ssd}, containers: [{name: c}]}`), []*clusterview.Node{host("a", "z")},
			"0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. preemption: not eligible due to preemptionPolicy=Never.",
			[]placement.Filter{placement.NodeAffinity}},
		{"could preempt", pod(t, `{priority: 10, containers: [{name: c, resources: {requests: {cpu: 2}}}]}`), []*clusterview.Node{host("a", "z", asks(t, "3", "1Gi"))},
			"0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 preemption of lower-priority pods is not supported.",
			[]placement.Filter{placement.NodeResourcesFit}},
		{"resource claims", pod(t, `{containers: [{name: c}], resourceClaims: [{name: gpu}]}`), []*clusterview.Node{host("a", "z")},
			"0/1 nodes are available: spec.resourceClaims is not supported." + fmt.Sprintf(noHelp, 1, 1), []placement.Filter{placement.Unsupported}},
		{"spread", pod(t, `{containers: [{name: c}], topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}]}`),
			[]*clusterview.Node{host("a", "z1", small), cordoned(host("b", "z2")), changed(host("c", "z3"), func(n *corev1.Node) { n.Labels = nil })},
			"0/3 nodes are available: 1 node(s) didn't match pod topology spread constraints, 1 node(s) didn't match pod topology spread constraints (missing required label), 1 node(s) were unschedulable." +
				" preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling.",
			[]placement.Filter{placement.NodeUnschedulable, placement.PodTopologySpread}},
		{"affinity", pod(t, `{containers: [{name: c}], affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: db}}}]}}}`),
			[]*clusterview.Node{host("a", "z", small)},
			"0/1 nodes are available: 1 node(s) didn't match pod affinity rules." + fmt.Sprintf(noHelp, 1, 1), []placement.Filter{placement.InterPodAffinity}},
		{"anti-affinity", pod(t, `{containers: [{name: c}], affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}]}}}`),
			[]*clusterview.Node{host("a", "z", small)},
			"0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules." + fmt.Sprintf(noVictims, 1, 1), []placement.Filter{placement.InterPodAffinity}},
		{"anti-affinity of others", small,
			[]*clusterview.Node{host("a", "z", pod(t, `{containers: [{name: c}], affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}]}}}`))},
			"0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules." + fmt.Sprintf(noVictims, 1, 1), []placement.Filter{placement.InterPodAffinity}},
		{"an unknown operator", pod(t, `{containers: [{name: c}], affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Like}]}]}}}}`),
			[]*clusterview.Node{host("a", "z")},
			"0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector." + fmt.Sprintf(noHelp, 1, 1), []placement.Filter{placement.NodeAffinity}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			node, err := placement.Place(tt.pod, cluster(tt.nodes...), first)
			var failure *placement.Failure
			if !errors.As(err, &failure) || node != nil {
				t.Fatalf("got %v, %v from Place, want a failure", node, err)
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
			if !slices.Equal(failure.Filters(), tt.filters) {
				t.Errorf("got filters %v, want %v", failure.Filters(), tt.filters)
			}
		})
	}
}

// TestPlaces checks where a pod goes if more than one node may fit. want lists the names of the
// nodes that it may go to.
func TestPlaces(t *testing.T) {
	small, half := asks(t, "100m", "200Mi"), asks(t, "2", "4Gi")
	affinity := func(side, terms string) *corev1.Pod {
		return pod(t, fmt.Sprintf(`{containers: [{name: c}], affinity: {%s: {requiredDuringSchedulingIgnoredDuringExecution: %s}}}`, side, terms))
	}
	resized := asks(t, "1", "1Mi")
	resized.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", AllocatedResources: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}}
	spread := func(extra string) *corev1.Pod {
		return pod(t, `{containers: [{name: c}], topologySpreadConstraints: [{topologyKey: topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: web}}, `+extra+`}]}`)
	}
	for _, tt := range []struct {
		name  string
		pod   *corev1.Pod
		nodes []*clusterview.Node
		want  []string
	}{
		{"anywhere", small, []*clusterview.Node{host("a", "z"), host("b", "z")}, []string{"a", "b"}},
		{"least allocated", small, []*clusterview.Node{host("a", "z", half), host("b", "z")}, []string{"b"}},
		{"best effort pods count too", small, []*clusterview.Node{host("a", "z", pod(t, `containers: [{name: c}]`)), host("b", "z")}, []string{"b"}},
		{"balanced", asks(t, "1", "200Mi"), []*clusterview.Node{host("a", "z", asks(t, "2", "1Gi")), host("b", "z", asks(t, "750m", "3584Mi"))}, []string{"b"}},
		{"balanced before", asks(t, "1", "0"), []*clusterview.Node{host("a", "z", asks(t, "0", "4Gi")), host("b", "z", asks(t, "1", "2Gi"))}, []string{"a"}},
		{"less than a point does not count", asks(t, "1m", "1Mi"), []*clusterview.Node{host("a", "z", asks(t, "10m", "1Mi")), host("b", "z", asks(t, "5m", "1Mi"))}, []string{"a", "b"}},
		{"tolerated taint", pod(t, `{containers: [{name: c}], tolerations: [{key: k, operator: Exists}]}`), []*clusterview.Node{tainted(host("a", "z"), corev1.TaintEffectNoSchedule)}, []string{"a"}},
		{"ready, or of unknown readiness", small, []*clusterview.Node{saying(host("a", "z"), corev1.ConditionTrue), saying(host("b", "z"), "")}, []string{"a", "b"}},
		{"tolerated though not ready", pod(t, `{containers: [{name: c}], tolerations: [{key: node.kubernetes.io/not-ready, operator: Exists}]}`),
			[]*clusterview.Node{saying(host("a", "z"), corev1.ConditionFalse), saying(host("b", "z"), corev1.ConditionUnknown)}, []string{"a"}},
		{"tolerated by value", pod(t, `{containers: [{name: c}], tolerations: [{key: k, value: v, effect: NoSchedule}]}`), []*clusterview.Node{tainted(host("a", "z"), corev1.TaintEffectNoSchedule)}, []string{"a"}},
		{"equal without a key", pod(t, `{containers: [{name: c}], tolerations: [{value: v}]}`), []*clusterview.Node{tainted(host("a", "z"), corev1.TaintEffectNoSchedule)}, []string{"a"}},
		{"cordon tolerated", pod(t, `{containers: [{name: c}], tolerations: [{operator: Exists}]}`), []*clusterview.Node{cordoned(host("a", "z"))}, []string{"a"}},
		{"taint to be avoided", small, []*clusterview.Node{tainted(host("a", "z"), corev1.TaintEffectPreferNoSchedule), host("b", "z", half)}, []string{"b"}},
		{"node selector", pod(t, `{containers: [{name: c}], nodeSelector: {kubernetes.io/hostname: b}}`), []*clusterview.Node{host("a", "z"), host("b", "z", half)}, []string{"b"}},
		{"alternatives of node affinity", affinity("nodeAffinity", `{nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [c]}]}, {matchFields: [{key: metadata.name, operator: In, values: [b]}]}]}`),
			[]*clusterview.Node{host("a", "z"), host("b", "z"), host("c", "z")}, []string{"b", "c"}},
		{"an empty term matches nothing", affinity("nodeAffinity", `{nodeSelectorTerms: [{}, {matchExpressions: [{key: kubernetes.io/hostname, operator: NotIn, values: [a]}]}]}`),
			[]*clusterview.Node{host("a", "z"), host("b", "z")}, []string{"b"}},
		{"preferred nodes", pod(t, `{containers: [{name: c}], affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [a, b]}]}}, {weight: 5, preference: {matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [c]}]}}]}}}`),
			[]*clusterview.Node{host("a", "z"), host("b", "z"), host("c", "z")}, []string{"c"}},
		{"every IPv6 address is another address", pod(t, `containers: [{name: c, ports: [{containerPort: 80, hostPort: 80, hostIP: "::1"}]}]`),
			[]*clusterview.Node{host("a", "z", pod(t, `containers: [{name: c, ports: [{containerPort: 80, hostPort: 80, hostIP: "::"}]}]`))}, []string{"a"}},
		{"the status of a pod without a node does not count", resized, []*clusterview.Node{host("a", "z", asks(t, "3", "1Gi"))}, []string{"a"}},
		{"host port on another address", pod(t, `containers: [{name: c, ports: [{containerPort: 80, hostPort: 80, hostIP: 10.0.0.1}]}]`),
			[]*clusterview.Node{host("a", "z", pod(t, `containers: [{name: c, ports: [{containerPort: 80, hostPort: 80, hostIP: 10.0.0.2}]}]`))}, []string{"a"}},
		{"hard spread", spread(`maxSkew: 1, whenUnsatisfiable: DoNotSchedule`), []*clusterview.Node{host("a", "z1", small), host("b", "z2", labelled(half, "app", "x"))}, []string{"b"}},
		{"hard spread with room", spread(`maxSkew: 2, whenUnsatisfiable: DoNotSchedule`), []*clusterview.Node{host("a", "z1", small), host("b", "z2", labelled(half, "app", "x"))}, []string{"a"}},
		{"hard spread and too few domains", spread(`maxSkew: 1, minDomains: 3, whenUnsatisfiable: DoNotSchedule`), []*clusterview.Node{host("a", "z1", small), host("b", "z2")}, []string{"b"}},
		{"soft spread", spread(`maxSkew: 1, whenUnsatisfiable: ScheduleAnyway`), []*clusterview.Node{host("a", "z1", small, small), host("b", "z2", labelled(small, "app", "x"), labelled(small, "app", "y"))}, []string{"b"}},
		{"an empty selector spreads nothing", pod(t, `{containers: [{name: c}], topologySpreadConstraints: [{topologyKey: topology.kubernetes.io/zone, labelSelector: {}, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}]}`),
			[]*clusterview.Node{host("a", "z1", small, small), host("b", "z2", half)}, []string{"a"}},
		{"spread by matchLabelKeys", labelled(spread(`maxSkew: 1, whenUnsatisfiable: DoNotSchedule, matchLabelKeys: [rev]`), "app", "web"), []*clusterview.Node{host("a", "z1", small), host("b", "z2", small, half)}, []string{"a"}},
		{"near others", affinity("podAffinity", `[{topologyKey: topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: db}}}]`),
			[]*clusterview.Node{host("a", "z1"), host("b", "z2", labelled(half, "app", "db")), host("c", "z2", labelled(half, "app", "x"))}, []string{"b", "c"}},
		{"the first of a group", affinity("podAffinity", `[{topologyKey: topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: web}}}]`),
			[]*clusterview.Node{host("a", "z1"), changed(host("b", "z2"), func(n *corev1.Node) { delete(n.Labels, corev1.LabelTopologyZone) })}, []string{"a"}},
		{"near a pod of a selected namespace", affinity("podAffinity", `[{topologyKey: kubernetes.io/hostname, labelSelector: {}, namespaceSelector: {matchLabels: {team: a}}}]`),
			[]*clusterview.Node{host("a", "z", small), host("b", "z", inNamespace(small, "team-b")), host("c", "z", inNamespace(half, "team-a"))}, []string{"c"}},
		{"near a pod of a named namespace", affinity("podAffinity", `[{topologyKey: kubernetes.io/hostname, labelSelector: {}, namespaces: [team-b]}]`),
			[]*clusterview.Node{host("a", "z", small), host("b", "z", inNamespace(small, "team-b"))}, []string{"b"}},
		{"away from others", affinity("podAntiAffinity", `[{topologyKey: topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: web}}}]`),
			[]*clusterview.Node{host("a", "z1", small), host("b", "z1"), host("c", "z2", labelled(half, "app", "x"))}, []string{"c"}},
		{"rather near others", pod(t, `{containers: [{name: c}], affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 10, podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: db}}}}]}}}`),
			[]*clusterview.Node{host("a", "z"), host("b", "z", labelled(small, "app", "db"))}, []string{"b"}},
		{"rather away from others", pod(t, `{containers: [{name: c}], affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 10, podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: db}}}}]}}}`),
			[]*clusterview.Node{host("a", "z", half), host("b", "z", labelled(small, "app", "db"))}, []string{"a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for i := range tt.nodes {
				node, err := placement.Place(tt.pod, cluster(tt.nodes...), func(n int) int { return i % n })
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, node.Name)
			}
			slices.Sort(got)
			if got = slices.Compact(got); !slices.Equal(got, tt.want) {
				t.Errorf("got nodes %v, want %v", got, tt.want)
			}
		})
	}
}

// TestOrderOfNodesDoesNotMatter checks that the order of the nodes does not change where a pod may
// go.
func TestOrderOfNodesDoesNotMatter(t *testing.T) {
	p := asks(t, "1", "1Gi")
	nodes := []*clusterview.Node{host("a", "z", asks(t, "2", "1Gi")), host("b", "z"), host("c", "z", asks(t, "1", "4Gi"))}
	for range nodes {
		nodes = append(nodes[1:], nodes[0])
		if node, err := placement.Place(p, cluster(nodes...), first); err != nil || node.Name != "b" {
			t.Errorf("got node %v, %v", node, err)
		}
	}
}

func BenchmarkPlace(b *testing.B) {
	var nodes []*clusterview.Node
	p := asks(b, "100m", "64Mi")
	for i := range 1000 {
		nodes = append(nodes, host(fmt.Sprint("n", i), fmt.Sprint("z", i%3), p, p, p, p, p))
	}
	c := cluster(nodes...)
	for b.Loop() {
		if _, err := placement.Place(p, c, first); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPlaceChoosing places a pod that chooses among nodes with labels and taints.
func BenchmarkPlaceChoosing(b *testing.B) {
	var nodes []*clusterview.Node
	small := asks(b, "100m", "64Mi")
	for i := range 1000 {
		nodes = append(nodes, tainted(host(fmt.Sprint("n", i), fmt.Sprint("z", i%3), small, small, small), corev1.TaintEffectNoSchedule))
	}
	p := pod(b, `{containers: [{name: c}], nodeSelector: {topology.kubernetes.io/zone: z1}, tolerations: [{key: a, operator: Exists}, {key: dedicated, operator: Exists}, {operator: Exists, effect: NoSchedule}],
		affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: NotIn, values: [n1, n2]}]}]},
		preferredDuringSchedulingIgnoredDuringExecution: [{weight: 5, preference: {matchExpressions: [{key: kubernetes.io/hostname, operator: Exists}]}}]}}}`)
	c := cluster(nodes...)
	for b.Loop() {
		if _, err := placement.Place(p, c, first); err != nil {
			b.Fatal(err)
		}
	}
}
