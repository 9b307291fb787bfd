package core

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/kindtest"
)

// TestCells checks that the cells are those that kubectl shows against Kubernetes.
func TestCells(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "x", CreationTimestamp: kindtest.Ago(3 * time.Hour)}
	for _, tc := range []struct {
		name  string
		kind  *kinds.Definition
		obj   scheme.Object
		cells []any
	}{
		{
			"node", Node(), &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: "x", CreationTimestamp: kindtest.Ago(3 * time.Hour), Labels: map[string]string{"node-role.kubernetes.io/control-plane": "", "kubernetes.io/role": "edge"}},
				Spec:       corev1.NodeSpec{Unschedulable: true},
				Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
					Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}},
					NodeInfo:  corev1.NodeSystemInfo{KubeletVersion: "v1.37.2", OSImage: "Debian", Architecture: "arm64"}},
			},
			[]any{"x", "Ready,SchedulingDisabled", "control-plane,edge", "3h", "v1.37.2", "10.0.0.1", "<none>", "Debian", "<unknown> (arm64)", "<unknown>"},
		},
		{"secret", Secret(), &corev1.Secret{ObjectMeta: meta, Type: "Opaque", Data: map[string][]byte{"a": nil}}, []any{"x", "Opaque", int64(1), "3h"}},
		{"config map", ConfigMap(), &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"a": ""}, BinaryData: map[string][]byte{"b": nil}}, []any{"x", int64(2), "3h"}},
		{
			"event", CoreEvent(), &corev1.Event{ObjectMeta: meta, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "p"}, Type: "Normal", Reason: "Started",
				Message: " hello\n", Source: corev1.EventSource{Component: "kubelet", Host: "n1"}, FirstTimestamp: kindtest.Ago(time.Hour), LastTimestamp: kindtest.Ago(time.Minute), Count: 4},
			[]any{"60s", "Normal", "Started", "pod/p", "", "kubelet, n1", "hello", "60m", int64(4), "x"},
		},
		{
			"event of a series", CoreEvent(), &corev1.Event{ObjectMeta: meta, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "p"}, Type: "Normal", Reason: "Scheduled",
				EventTime: metav1.NewMicroTime(kindtest.Now().Add(-time.Minute)), ReportingController: "scheduler"},
			[]any{"60s", "Normal", "Scheduled", "pod/p", "", "scheduler", "", "60s", int64(1), "x"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) { kindtest.Cells(t, tc.kind, tc.obj, tc.cells) })
	}
}

// TestRows checks that the columns and cells are those that kubectl shows against Kubernetes.
func TestRows(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "one", CreationTimestamp: kindtest.Ago(5 * time.Minute)}
	for _, tc := range []struct {
		name    string
		kind    *kinds.Definition
		obj     scheme.Object
		columns []string
		cells   []any
	}{
		{
			"quota", ResourceQuota(), &corev1.ResourceQuota{ObjectMeta: meta, Status: corev1.ResourceQuotaStatus{
				Hard: corev1.ResourceList{"pods": resource.MustParse("10"), "limits.cpu": resource.MustParse("4"), "count/x.y": resource.MustParse("2")},
				Used: corev1.ResourceList{"pods": resource.MustParse("3"), "limits.cpu": resource.MustParse("500m")},
			}},
			[]string{"Name", "Request", "Limit", "Age"},
			[]any{"one", "count/x.y: 0/2, pods: 3/10", "limits.cpu: 500m/4", "5m"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) { kindtest.Row(t, tc.kind, tc.obj, tc.columns, tc.cells) })
	}
}
