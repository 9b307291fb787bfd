package cycle_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
)

// TestGroupsAreSpread checks that the pods of each kind of group go to different nodes, although the
// second pod would fit better beside the first.
func TestGroupsAreSpread(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "default", Name: "g"}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	owned := func(version, kind string) *metav1.OwnerReference {
		yes := true
		return &metav1.OwnerReference{APIVersion: version, Kind: kind, Name: "g", UID: "g", Controller: &yes}
	}
	for _, tt := range []struct {
		name  string
		group scheme.Object
		owner *metav1.OwnerReference
		nodes int // on which the two pods run
	}{
		{"no group", &corev1.Service{ObjectMeta: meta}, nil, 1},
		{"a Service", &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Selector: selector.MatchLabels}}, nil, 2},
		{"a ReplicationController", &corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Selector: selector.MatchLabels}},
			owned("v1", "ReplicationController"), 2},
		{"a ReplicaSet", &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: selector}}, owned("apps/v1", "ReplicaSet"), 2},
		{"a StatefulSet", &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector}}, owned("apps/v1", "StatefulSet"), 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t, tt.group, node("large", "64"), node("small", "16"))
				var on []string
				for _, name := range []string{"p1", "p2"} {
					pod := pod(name, "8")
					pod.Labels = selector.MatchLabels
					if tt.owner != nil {
						pod.OwnerReferences = []metav1.OwnerReference{*tt.owner}
					}
					p.create(t, pod)
					time.Sleep(time.Second)
					on = append(on, p.get(t, name).Spec.NodeName)
				}
				slices.Sort(on)
				if got := len(slices.Compact(slices.Clone(on))); slices.Contains(on, "") || got != tt.nodes {
					t.Errorf("the pods are on %v", on)
				}
			})
		})
	}
}
