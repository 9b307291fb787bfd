package builtin

import (
	"reflect"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
)

var now = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

func TestEveryKindHasColumnsAndAsManyCells(t *testing.T) {
	for _, kind := range scheme.New().Kinds() {
		if kind.Virtual {
			continue
		}
		table := All(Config{})[kind.GroupVersionKind].Columns.Table([]scheme.Object{kind.New()}, nil, nil, now)
		if len(table.Rows[0].Cells) != len(table.ColumnDefinitions) {
			t.Errorf("%s has %d columns and %d cells", kind.Kind, len(table.ColumnDefinitions), len(table.Rows[0].Cells))
		}
		for _, column := range table.ColumnDefinitions {
			if column.Description == "" {
				t.Errorf("%s: column %s has no description", kind.Kind, column.Name)
			}
		}
	}
}

func TestRows(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "x", CreationTimestamp: ago(3 * time.Hour)}
	labels := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "i:1"}, {Name: "b", Image: "j"}}}}
	table := scheme.New()
	for _, tc := range []struct {
		obj   scheme.Object
		cells []any
	}{
		{
			&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: new(int32(3)), Selector: labels, Template: template},
				Status: appsv1.DeploymentStatus{ReadyReplicas: 1, UpdatedReplicas: 2, AvailableReplicas: 1}},
			[]any{"x", "1/3", int64(2), int64(1), "3h", "a,b", "i:1,j", "app=web"},
		},
		{
			&appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(3)), Selector: labels, Template: template},
				Status: appsv1.ReplicaSetStatus{Replicas: 2, ReadyReplicas: 1}},
			[]any{"x", int64(3), int64(2), int64(1), "3h", "a,b", "i:1,j", "app=web"},
		},
		{
			&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, ClusterIPs: []string{"10.96.0.9"},
				Ports: []corev1.ServicePort{{Port: 80, NodePort: 30080, Protocol: "TCP"}, {Port: 53, Protocol: "UDP"}}}},
			[]any{"x", "NodePort", "10.96.0.9", "<none>", "80:30080/TCP,53/UDP", "3h", "<none>"},
		},
		{
			&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "a.b"}},
			[]any{"x", "ExternalName", "<none>", "a.b", "<none>", "3h", "<none>"},
		},
		{
			&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ClusterIPs: []string{"10.96.0.9"}}},
			[]any{"x", "LoadBalancer", "10.96.0.9", "<pending>", "<none>", "3h", "<none>"},
		},
		{
			&corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: "x", CreationTimestamp: ago(3 * time.Hour), Labels: map[string]string{"node-role.kubernetes.io/control-plane": "", "kubernetes.io/role": "edge"}},
				Spec:       corev1.NodeSpec{Unschedulable: true},
				Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
					Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}},
					NodeInfo:  corev1.NodeSystemInfo{KubeletVersion: "v1.37.2", OSImage: "Debian"}},
			},
			[]any{"x", "Ready,SchedulingDisabled", "control-plane,edge", "3h", "v1.37.2", "10.0.0.1", "<none>", "Debian", "<unknown>", "<unknown>"},
		},
		{&corev1.Secret{ObjectMeta: meta, Type: "Opaque", Data: map[string][]byte{"a": nil}}, []any{"x", "Opaque", int64(1), "3h"}},
		{&corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"a": ""}, BinaryData: map[string][]byte{"b": nil}}, []any{"x", int64(2), "3h"}},
		{
			&discoveryv1.EndpointSlice{ObjectMeta: meta, AddressType: "IPv4", Ports: []discoveryv1.EndpointPort{{Port: new(int32(80))}},
				Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"1", "2"}}, {Addresses: []string{"3"}}, {Addresses: []string{"4"}}}},
			[]any{"x", "IPv4", "80", "1,2,3 + 1 more...", "3h"},
		},
		{
			&corev1.Event{ObjectMeta: meta, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "p"}, Type: "Normal", Reason: "Started",
				Message: " hello\n", Source: corev1.EventSource{Component: "kubelet", Host: "n1"}, FirstTimestamp: ago(time.Hour), LastTimestamp: ago(time.Minute), Count: 4},
			[]any{"60s", "Normal", "Started", "pod/p", "", "kubelet, n1", "hello", "60m", int64(4), "x"},
		},
		{
			&corev1.Event{ObjectMeta: meta, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "p"}, Type: "Normal", Reason: "Scheduled",
				EventTime: metav1.NewMicroTime(now.Add(-time.Minute)), ReportingController: "scheduler"},
			[]any{"60s", "Normal", "Scheduled", "pod/p", "", "scheduler", "", "60s", int64(1), "x"},
		},
		{
			&appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "x", OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", Controller: new(true)}}}, Revision: 3},
			[]any{"x", "daemonset.apps/d", int64(3), "<unknown>"},
		},
	} {
		kind := table.KindOf(tc.obj)
		t.Run(kind.Kind, func(t *testing.T) {
			got := All(Config{})[kind.GroupVersionKind].Columns.Table([]scheme.Object{tc.obj}, nil, nil, now).Rows[0].Cells
			if !reflect.DeepEqual(got, tc.cells) {
				t.Errorf("got  %#v\nwant %#v", got, tc.cells)
			}
		})
	}
}

func TestIncludedObject(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", ResourceVersion: "7"}}
	gvk := corev1.SchemeGroupVersion.WithKind("Pod")
	for policy, want := range map[metav1.IncludeObjectPolicy]string{
		"":                     "*v1.PartialObjectMetadata",
		metav1.IncludeMetadata: "*v1.PartialObjectMetadata",
		metav1.IncludeObject:   "*v1.Pod",
	} {
		table := All(Config{})[gvk].Columns.Table([]scheme.Object{pod}, nil, &metav1.TableOptions{IncludeObject: policy}, now)
		if got := reflect.TypeOf(table.Rows[0].Object.Object).String(); got != want {
			t.Errorf("%q: got a %s, want %s", policy, got, want)
		}
	}
	table := All(Config{})[gvk].Columns.Table([]scheme.Object{pod}, nil, &metav1.TableOptions{IncludeObject: metav1.IncludeNone, NoHeaders: true}, now)
	if table.Rows[0].Object.Object != nil || table.ColumnDefinitions != nil || table.ResourceVersion != "7" {
		t.Errorf("got table %+v, want no column definitions and objects", table)
	}
}
