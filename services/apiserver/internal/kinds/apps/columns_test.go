package apps

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/kindtest"
)

// TestRows checks that the cells are those that kubectl shows against Kubernetes.
func TestRows(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "x", CreationTimestamp: kindtest.Ago(3 * time.Hour)}
	labels := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "i:1"}, {Name: "b", Image: "j"}}}}
	pods := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web", "b": "c"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "i:1"}, {Name: "b", Image: "j"}}, NodeSelector: map[string]string{"disk": "ssd"}},
	}
	for _, tc := range []struct {
		name  string
		kind  *kinds.Definition
		obj   scheme.Object
		cells []any
	}{
		{
			"deployment", Deployment(), &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: new(int32(3)), Selector: labels, Template: template},
				Status: appsv1.DeploymentStatus{ReadyReplicas: 1, UpdatedReplicas: 2, AvailableReplicas: 1}},
			[]any{"x", "1/3", int64(2), int64(1), "3h", "a,b", "i:1,j", "app=web"},
		},
		{
			"replica set", ReplicaSet(), &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(3)), Selector: labels, Template: template},
				Status: appsv1.ReplicaSetStatus{Replicas: 2, ReadyReplicas: 1}},
			[]any{"x", int64(3), int64(2), int64(1), "3h", "a,b", "i:1,j", "app=web"},
		},
		{
			"controller revision", ControllerRevision(), &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "x", OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", Controller: new(true)}}}, Revision: 3},
			[]any{"x", "daemonset.apps/d", int64(3), "<unknown>"},
		},
		{"stateful set", StatefulSet(), &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: new(int32(3)), Template: pods}, Status: appsv1.StatefulSetStatus{ReadyReplicas: 2}},
			[]any{"x", "2/3", "3h", "a,b", "i:1,j"}},
		{"daemon set", DaemonSet(), &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: labels, Template: pods}, Status: appsv1.DaemonSetStatus{
			DesiredNumberScheduled: 5, CurrentNumberScheduled: 4, NumberReady: 3, UpdatedNumberScheduled: 2, NumberAvailable: 1,
		}}, []any{"x", int64(5), int64(4), int64(3), int64(2), int64(1), "disk=ssd", "3h", "a,b", "i:1,j", "app=web"}},
		{"replication controller", ReplicationController(), &corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{
			Replicas: new(int32(3)), Selector: map[string]string{"app": "web"}, Template: &pods,
		}, Status: corev1.ReplicationControllerStatus{Replicas: 2, ReadyReplicas: 1}}, []any{"x", int64(3), int64(2), int64(1), "3h", "a,b", "i:1,j", "app=web"}},
	} {
		t.Run(tc.name, func(t *testing.T) { kindtest.Cells(t, tc.kind, tc.obj, tc.cells) })
	}
}
