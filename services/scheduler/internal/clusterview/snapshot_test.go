package clusterview_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/garboard/garboard/services/scheduler/internal/clusterview"
)

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
		Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")},
	}}
}

func pod(uid, on string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID(uid)}}
	p.Spec.NodeName = on
	p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")},
	}}}
	return p
}

// show describes a snapshot: each node with its pods and what they take.
func show(c *clusterview.Cache) []string {
	var lines []string
	for _, n := range c.Snapshot() {
		var names []string
		for _, p := range n.Pods {
			names = append(names, p.Name)
		}
		slices.Sort(names)
		lines = append(lines, fmt.Sprintf("%s%v%d", n.Name, names, n.Requested[corev1.ResourceCPU]))
	}
	return lines
}

func TestCache(t *testing.T) {
	c := clusterview.NewCache()
	check := func(when string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, show(c)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	c.SetPod(pod("early", "b"))
	check("a pod before its node")
	c.SetNode(node("b"))
	c.SetNode(node("a"))
	check("nodes in order", "a[]0", "b[early]250")
	if !c.Assume(pod("p", ""), "a") || c.Assume(pod("p", ""), "b") {
		t.Error("a pod was not assumed exactly once")
	}
	check("assumed", "a[p]250", "b[early]250")
	c.SetPod(pod("p", "a"))
	c.Forget("p")
	check("confirmed pods are not forgotten", "a[p]250", "b[early]250")
	if c.Assume(pod("p", ""), "b") {
		t.Error("a confirmed pod was assumed")
	}
	c.Assume(pod("q", ""), "a")
	c.Forget("q")
	check("an assumption taken back", "a[p]250", "b[early]250")
	c.Assume(pod("q", ""), "a")
	c.SetPod(pod("q", "b"))
	check("the API knows better", "a[p]250", "b[early q]500")
	done := pod("early", "b")
	done.Status.Phase = corev1.PodSucceeded
	c.SetPod(done)
	check("an ended pod takes no room", "a[p]250", "b[q]250")
	c.RemoveNode("b")
	check("a node is gone", "a[p]250")
	c.SetNode(node("b"))
	check("and comes back with its pods", "a[p]250", "b[q]250")
	c.RemovePod("q")
	c.RemovePod("never")
	if c.Placed("q") || !c.Placed("p") {
		t.Error("Placed does not report exactly the placed pods")
	}
	check("a pod is gone", "a[p]250", "b[]0")
}

// TestSnapshotsAreIncremental checks that a snapshot does not change, and that unchanged nodes are
// not rebuilt.
func TestSnapshotsAreIncremental(t *testing.T) {
	c := clusterview.NewCache()
	c.SetNode(node("a"))
	c.SetNode(node("b"))
	before := c.Snapshot()
	c.SetPod(pod("p", "a"))
	after := c.Snapshot()
	if before[0] == after[0] || before[1] != after[1] {
		t.Error("not exactly the changed node was rebuilt")
	}
	if len(before[0].Pods) != 0 {
		t.Error("an old snapshot changed")
	}
}

// TestCacheAgainstAFreshOne checks that after any sequence of events the sums equal those of a
// cache built at once.
func TestCacheAgainstAFreshOne(t *testing.T) {
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 3))
		c := clusterview.NewCache()
		nodes, pods := map[string]bool{}, map[string]string{}
		for range 200 {
			name, uid := fmt.Sprint("n", random.IntN(3)), fmt.Sprint("p", random.IntN(6))
			switch random.IntN(7) {
			case 0:
				c.SetNode(node(name))
				nodes[name] = true
			case 1:
				c.RemoveNode(name)
				delete(nodes, name)
			case 2, 3:
				c.SetPod(pod(uid, name))
				pods[uid] = name
			case 4:
				c.RemovePod(types.UID(uid))
				delete(pods, uid)
			case 5:
				if c.Assume(pod(uid, ""), name) {
					c.Snapshot()
					c.Forget(types.UID(uid))
				}
			case 6:
				c.Snapshot()
			}
		}
		fresh := clusterview.NewCache()
		for name := range nodes {
			fresh.SetNode(node(name))
		}
		for uid, on := range pods {
			fresh.SetPod(pod(uid, on))
		}
		if diff := cmp.Diff(show(fresh), show(c)); diff != "" {
			t.Fatalf("seed %d (-want +got):\n%s", seed, diff)
		}
	}
}

func TestRequests(t *testing.T) {
	for _, tt := range []struct {
		name, spec string
		want       clusterview.Resources
	}{
		{"containers add up", `containers: [{name: a, resources: {requests: {cpu: 100m, memory: 1Ki}}}, {name: b, resources: {requests: {cpu: 1}}}]`,
			clusterview.Resources{"cpu": 1100, "memory": 1024}},
		{"the largest init container", `{initContainers: [{name: i, resources: {requests: {cpu: 2}}}, {name: j, resources: {requests: {cpu: 3, memory: 10}}}], containers: [{name: a, resources: {requests: {cpu: 1, memory: 20}}}]}`,
			clusterview.Resources{"cpu": 3000, "memory": 20}},
		{"sidecars run beside the rest", `{initContainers: [{name: i, resources: {requests: {cpu: 2}}}, {name: s, restartPolicy: Always, resources: {requests: {cpu: 1}}}, {name: j, resources: {requests: {cpu: 3}}}], containers: [{name: a, resources: {requests: {cpu: 500m}}}]}`,
			clusterview.Resources{"cpu": 4000}},
		{"overhead", `{overhead: {cpu: 250m}, containers: [{name: a, resources: {requests: {cpu: 1}}}]}`, clusterview.Resources{"cpu": 1250}},
		{"the pod as a whole", `{resources: {requests: {cpu: 2}}, containers: [{name: a, resources: {requests: {cpu: 1, memory: 5}}}]}`,
			clusterview.Resources{"cpu": 2000, "memory": 5}},
		{"nothing", `containers: [{name: a}]`, clusterview.Resources{}},
		{"a pod that shrinks", `containers: [{name: shrinking, resources: {requests: {cpu: 1}}}]`, clusterview.Resources{"cpu": 3000}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var p corev1.Pod
			if err := yaml.UnmarshalStrict([]byte(tt.spec), &p.Spec); err != nil {
				t.Fatal(err)
			}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: "shrinking", AllocatedResources: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3")},
			}}
			if diff := cmp.Diff(tt.want, clusterview.Requests(&p)); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNonZeroRequests(t *testing.T) {
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{}, {}}}}
	want := clusterview.Resources{"cpu": 200, "memory": 2 * 200 << 20}
	if diff := cmp.Diff(want, clusterview.NonZeroRequests(p)); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// TestHugeAmounts checks that amounts which no integer holds do not count as few.
func TestHugeAmounts(t *testing.T) {
	huge := pod("p", "n")
	for _, amount := range []string{"10E", "9223372036854775807", "9223372036854776"} {
		huge.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(amount), corev1.ResourceEphemeralStorage: resource.MustParse(amount),
		}}}}
		if got := clusterview.Requests(huge); got["cpu"] != clusterview.Largest {
			t.Errorf("%s CPUs are %d", amount, got["cpu"])
		}
	}
	sum := clusterview.Resources{}
	for range 1000 {
		sum.Add(clusterview.Resources{"cpu": clusterview.Largest})
	}
	if sum["cpu"] != clusterview.Largest {
		t.Errorf("the sum is %d", sum["cpu"])
	}
}

// TestNonZeroOfPodLevelRequests checks what counts of the requests of a pod as a whole, before and
// after it is placed.
func TestNonZeroOfPodLevelRequests(t *testing.T) {
	cpu := func(amount string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}}
	}
	whole := corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}}
	p := pod("p", "n")
	p.Spec.Resources, p.Spec.Containers = &whole, []corev1.Container{{Name: "a", Resources: cpu("1")}, {Name: "b"}}
	if diff := cmp.Diff(clusterview.Resources{"cpu": 1100, "memory": 2 * 200 << 20}, clusterview.NonZeroRequests(p)); diff != "" {
		t.Errorf("without a node (-want +got):\n%s", diff)
	}
	placed := clusterview.NewNode(node("n"), map[types.UID]*corev1.Pod{p.UID: p})
	if diff := cmp.Diff(clusterview.Resources{"cpu": 1000, "memory": 1 << 30}, placed.NonZero); diff != "" {
		t.Errorf("on a node (-want +got):\n%s", diff)
	}
}

// BenchmarkSnapshot adds a pod to one of 100 nodes with 110 pods each, and removes it.
func BenchmarkSnapshot(b *testing.B) {
	c := clusterview.NewCache()
	sized := func(uid, on string) *corev1.Pod {
		p := pod(uid, on)
		p.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
		}}}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c"}}
		return p
	}
	for i := range 100 {
		name := fmt.Sprint("n", i)
		c.SetNode(node(name))
		for j := range 110 {
			c.SetPod(sized(fmt.Sprint(i, "-", j), name))
		}
	}
	next := sized("next", "")
	for b.Loop() {
		c.Assume(next, "n7")
		c.Snapshot()
		c.Forget(next.UID)
		c.Snapshot()
	}
}
