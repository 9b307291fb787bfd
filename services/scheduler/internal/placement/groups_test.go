package placement_test

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/scheduler/internal/clusterview"
	"github.com/garboard/garboard/services/scheduler/internal/placement"
)

// TestGroups checks which pods are spread although they have no constraints.
func TestGroups(t *testing.T) {
	web := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	groups := placement.Groups{
		Services: func(namespace string) []*corev1.Service {
			if namespace != "default" {
				return nil
			}
			service := func(selector map[string]string) *corev1.Service {
				return &corev1.Service{Spec: corev1.ServiceSpec{Selector: selector}}
			}
			return []*corev1.Service{service(nil), service(map[string]string{"app": "db"})}
		},
		ReplicationController: func(_, name string) *corev1.ReplicationController {
			if name != "web" {
				return nil
			}
			return &corev1.ReplicationController{Spec: corev1.ReplicationControllerSpec{Selector: web.MatchLabels}}
		},
		ReplicaSet: func(_, name string) *appsv1.ReplicaSet {
			if name != "web" {
				return nil
			}
			return &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Selector: web}}
		},
		StatefulSet: func(_, name string) *appsv1.StatefulSet {
			if name != "web" {
				return nil
			}
			return &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Selector: web}}
		},
	}
	small, large := asks(t, "100m", "200Mi"), asks(t, "1", "2Gi")
	owned := func(version, kind, name string) *corev1.Pod {
		yes := true
		p := small.DeepCopy()
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: name, UID: "u", Controller: &yes}}
		return p
	}
	for _, tt := range []struct {
		name   string
		pod    *corev1.Pod
		spread bool
	}{
		{"a pod of no group", small, false},
		{"a pod of a Service", labelled(small, "app", "db"), true},
		{"a pod of a namespace without Services", inNamespace(labelled(small, "app", "db"), "other"), false},
		{"a pod of a ReplicationController", owned("v1", "ReplicationController", "web"), true},
		{"a pod of a ReplicaSet", owned("apps/v1", "ReplicaSet", "web"), true},
		{"a pod of a StatefulSet", owned("apps/v1", "StatefulSet", "web"), true},
		{"a pod of a ReplicaSet that is gone", owned("apps/v1", "ReplicaSet", "gone"), false},
		{"a pod of a Job", owned("batch/v1", "Job", "web"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// Without spreading the pod goes to a, beside its like; with it to c, the other zone.
			like := inNamespace(tt.pod, tt.pod.Namespace)
			c := cluster(host("a", "z1", like), host("b", "z1", labelled(large, "app", "x")), host("c", "z2", labelled(large, "app", "x")))
			c.Groups = groups
			want := "a"
			if tt.spread {
				want = "c"
			}
			if node, err := placement.Place(tt.pod, c, first); err != nil || node.Name != want {
				t.Errorf("got %v, %v, want %s", node, err, want)
			}
		})
	}
}

// TestGroupsCountNodesThatSuit checks that pods on nodes which pod's selector excludes do not count
// when pods of a group are spread over zones.
func TestGroupsCountNodesThatSuit(t *testing.T) {
	p := pod(t, `{containers: [{name: c, resources: {requests: {cpu: 100m, memory: 200Mi}}}], nodeSelector: {disk: ssd}}`)
	with := func(n *clusterview.Node) *clusterview.Node {
		return changed(n, func(n *corev1.Node) { n.Labels["disk"] = "ssd" })
	}
	small := asks(t, "100m", "200Mi")
	c := cluster(with(host("a", "z1")), host("b", "z1", small, small, small), with(host("c", "z2")))
	c.Groups.Services = func(string) []*corev1.Service {
		return []*corev1.Service{{Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}}}
	}
	var on []string
	for i := range 2 {
		node, err := placement.Place(p, c, func(n int) int { return i % n })
		if err != nil {
			t.Fatal(err)
		}
		on = append(on, node.Name)
	}
	if !slices.Equal(on, []string{"a", "c"}) {
		t.Errorf("the pod may go to %v, want a and c", on)
	}
}
