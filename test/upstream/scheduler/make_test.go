package upstream

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/services/scheduler/internal/conformance"
)

// Maker makes cases. They depend only on its seed.
type Maker struct {
	*rand.Rand
	c *conformance.Case
}

// NewMaker returns a maker.
func NewMaker(seed uint64) *Maker { return &Maker{Rand: rand.New(rand.NewPCG(seed, 2))} }

// Case returns a random case. All its objects are as an apiserver stores them.
func (m *Maker) Case() *conformance.Case {
	m.c = &conformance.Case{Namespaces: []*corev1.Namespace{
		namespace("default", map[string]string{"team": "a"}), namespace("other", map[string]string{"team": "b"}), namespace("bare", nil),
	}}
	for i := range 1 + m.IntN(6) {
		m.c.Nodes = append(m.c.Nodes, m.node(fmt.Sprintf("n%d", i)))
	}
	m.groups()
	m.storage()
	for i := range m.IntN(10) {
		if pod := m.stored(m.podOn(i)); pod != nil {
			m.c.Pods = append(m.c.Pods, m.running(pod))
		}
	}
	for m.c.Pod == nil {
		m.c.Pod = m.stored(m.pod("p", 1+m.IntN(4)))
	}
	if m.one(3) {
		m.limit()
	}
	return m.c
}

func namespace(name string, labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

// one reports true once in n times.
func (m *Maker) one(n int) bool { return m.IntN(n) == 0 }

// of returns one of some values.
func of[T any](m *Maker, values ...T) T { return values[m.IntN(len(values))] }

// some returns a value or nil.
func some[T any](m *Maker, values ...T) *T {
	if m.one(2) {
		return nil
	}
	v := of(m, values...)
	return &v
}

func (m *Maker) node(name string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{}}}
	label := func(key string, missing int, values ...string) {
		if !m.one(missing) {
			node.Labels[key] = of(m, values...)
		}
	}
	label(corev1.LabelHostname, 12, name, name, name, name, name, name, "n0")
	label(corev1.LabelTopologyZone, 6, "z1", "z2", "z3", "")
	label(corev1.LabelTopologyRegion, 3, "r1", "r2")
	label("disk", 3, "ssd", "hdd")
	label("cores", 3, "4", "8", "many")
	if m.one(6) {
		label(corev1.LabelFailureDomainBetaZone, 2, "z1", "z2")
	}
	node.Spec.Unschedulable = m.one(15)
	for m.one(4) {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{
			Key:    of(m, "dedicated", "k", corev1.TaintNodeUnschedulable, corev1.TaintNodeNotReady),
			Value:  of(m, "", "v", "w"),
			Effect: of(m, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute),
		})
	}
	if m.one(2) {
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	}
	node.Status.Allocatable = corev1.ResourceList{}
	has := func(name corev1.ResourceName, missing int, values ...string) {
		if !m.one(missing) {
			node.Status.Allocatable[name] = resource.MustParse(of(m, values...))
		}
	}
	has(corev1.ResourceCPU, 15, "1", "4", "8", "16", "3300m", "0")
	has(corev1.ResourceMemory, 15, "2Gi", "8Gi", "32Gi", "3000000001")
	has(corev1.ResourcePods, 20, "3", "10", "110", "110", "110", "110")
	has(corev1.ResourceEphemeralStorage, 3, "1Gi", "10Gi")
	has("hugepages-2Mi", 3, "4Mi", "8Mi")
	has("example.com/gpu", 2, "1", "2", "4")
	return node
}

// groups adds the objects that say which pods belong together.
func (m *Maker) groups() {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: of(m, "default", "default", "other"), Name: name}
	}
	selector := func() *metav1.LabelSelector { return m.selector() }
	for i := range m.IntN(3) {
		service := &corev1.Service{ObjectMeta: meta("s" + strconv.Itoa(i))}
		service.Spec.Selector = of(m, nil, map[string]string{"app": "web"}, map[string]string{"app": "db"}, map[string]string{"tier": "front"})
		m.c.Services = append(m.c.Services, service)
	}
	if m.one(3) {
		m.c.ReplicaSets = append(m.c.ReplicaSets, &appsv1.ReplicaSet{ObjectMeta: meta("owner"), Spec: appsv1.ReplicaSetSpec{Selector: selector()}})
	}
	if m.one(3) {
		m.c.StatefulSets = append(m.c.StatefulSets, &appsv1.StatefulSet{ObjectMeta: meta("owner"), Spec: appsv1.StatefulSetSpec{Selector: selector()}})
	}
	if m.one(3) {
		m.c.ReplicationControllers = append(m.c.ReplicationControllers, &corev1.ReplicationController{
			ObjectMeta: meta("owner"), Spec: corev1.ReplicationControllerSpec{Selector: of(m, map[string]string{"app": "web"}, map[string]string{"rev": "1"})},
		})
	}
}

// podOn returns a pod on one of the nodes.
func (m *Maker) podOn(i int) *corev1.Pod {
	pod := m.pod("e"+strconv.Itoa(i), m.IntN(3))
	pod.Spec.NodeName = of(m, m.c.Nodes...).Name
	return pod
}

// pod returns a pod with some features.
func (m *Maker) pod(name string, features int) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: of(m, "default", "default", "default", "other", "bare"), Name: name, UID: types.UID(name), Labels: map[string]string{},
	}}
	if !m.one(6) {
		pod.Labels["app"] = of(m, "web", "web", "db")
	}
	if m.one(2) {
		pod.Labels["tier"] = of(m, "front", "back")
	}
	if m.one(2) {
		pod.Labels["rev"] = of(m, "1", "2")
	}
	for i := range 1 + m.IntN(2) {
		pod.Spec.Containers = append(pod.Spec.Containers, m.container("c"+strconv.Itoa(i)))
	}
	pod.Spec.Priority = some(m, int32(0), 0, 0, 100, -5)
	if m.one(12) {
		pod.Spec.PreemptionPolicy = of(m, some(m, corev1.PreemptNever), some(m, corev1.PreemptLowerPriority))
	}
	for range features {
		all[m.IntN(len(all))](m, pod)
	}
	return pod
}

func (m *Maker) container(name string) corev1.Container {
	return corev1.Container{Name: name, Image: "i", Resources: m.resources()}
}

// resources returns random requests and limits of a container.
func (m *Maker) resources() corev1.ResourceRequirements {
	r := corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}
	set := func(list corev1.ResourceList, name corev1.ResourceName, times int, values ...string) {
		if m.one(times) {
			list[name] = resource.MustParse(of(m, values...))
		}
	}
	set(r.Requests, corev1.ResourceCPU, 2, "0", "100m", "250m", "333m", "500m", "1")
	set(r.Requests, corev1.ResourceMemory, 2, "0", "64Mi", "200Mi", "1Gi", "1000000001", "100m")
	set(r.Requests, corev1.ResourceEphemeralStorage, 16, "0", "1Gi", "512Mi")
	set(r.Limits, corev1.ResourceCPU, 10, "1", "2")
	set(r.Limits, corev1.ResourceMemory, 10, "1Gi", "2Gi")
	set(r.Limits, "hugepages-2Mi", 30, "2Mi", "4Mi")
	set(r.Limits, "example.com/gpu", 20, "0", "1", "2")
	return r
}

// selector returns a label selector; nil selects nothing.
func (m *Maker) selector() *metav1.LabelSelector {
	if m.one(12) {
		return nil
	}
	selector := &metav1.LabelSelector{}
	if m.one(8) {
		return selector
	}
	if m.one(2) {
		selector.MatchLabels = of(m, map[string]string{"app": "web"}, map[string]string{"app": "db"}, map[string]string{"tier": "front"})
	}
	if selector.MatchLabels == nil || m.one(4) {
		expression := metav1.LabelSelectorRequirement{
			Key:      of(m, "app", "tier", "rev"),
			Operator: of(m, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist),
		}
		if expression.Operator == metav1.LabelSelectorOpIn || expression.Operator == metav1.LabelSelectorOpNotIn {
			expression.Values = of(m, []string{"web", "1"}, []string{"db"}, []string{"front", "2"})
		}
		selector.MatchExpressions = append(selector.MatchExpressions, expression)
	}
	return selector
}
