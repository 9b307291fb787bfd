package endpointslice

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs the controller, inside a bubble, with the rights of its role, on two nodes in two zones.
func start(t *testing.T) *controltest.Plane {
	t.Helper()
	p := controltest.New(t, node("n1", "a"), node("n2", "b"))
	p.Allow("get list watch create update delete discovery.k8s.io/endpointslices", controltest.Events)
	p.Declare(New)
	p.Start()
	return p
}

// settle lets everything happen that happens within three seconds.
func settle() {
	time.Sleep(3 * time.Second)
	synctest.Wait()
}

func node(name, zone string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{corev1.LabelTopologyZone: zone}},
		Status: corev1.NodeStatus{
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")},
		},
	}
}

func service(change ...func(*corev1.Service)) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Labels: map[string]string{"team": "x"}},
		Spec: corev1.ServiceSpec{
			ClusterIP: "10.0.0.1", IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Selector: map[string]string{"app": "web"},
			Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(8080)}},
		},
	}
	for _, f := range change {
		f(svc)
	}
	return svc
}

// pod returns a ready pod, the number of which is in its name and address.
func pod(n int, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprintf("web-%d", n), UID: types.UID(fmt.Sprint(n)), Labels: map[string]string{"app": "web"},
		},
		Spec: corev1.PodSpec{NodeName: fmt.Sprintf("n%d", 1+n%2), Containers: []corev1.Container{{
			Name: "c", Image: "i", Ports: []corev1.ContainerPort{{Name: "metrics", ContainerPort: 9090, Protocol: corev1.ProtocolTCP}},
		}}},
	}
	ip := fmt.Sprintf("10.1.%d.%d", n/250, n%250+1)
	p.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func unready(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }

func terminating(p *corev1.Pod) {
	now := metav1.Now()
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &now, new(int64)
	p.Finalizers = []string{"example.com/hold"}
}

// slicesOf returns the slices, sorted by name.
func slicesOf(p *controltest.Plane) []*discoveryv1.EndpointSlice {
	return controltest.List[*discoveryv1.EndpointSlice](p)
}

// sizes returns the numbers of endpoints of all slices, sorted.
func sizes(p *controltest.Plane) []int {
	var all []int
	for _, slice := range slicesOf(p) {
		all = append(all, len(slice.Endpoints))
	}
	slices.Sort(all)
	return all
}

// only returns the one slice that there must be.
func only(t *testing.T, p *controltest.Plane) *discoveryv1.EndpointSlice {
	t.Helper()
	all := slicesOf(p)
	if len(all) != 1 {
		t.Fatalf("got %d slices, want 1", len(all))
	}
	return all[0]
}

// writes returns how often slices were written since the last call.
func writes(p *controltest.Plane) int {
	n := 0
	for _, call := range p.Writes() {
		if call.Kind.Resource == "endpointslices" {
			n++
		}
	}
	p.ClearCalls()
	return n
}
