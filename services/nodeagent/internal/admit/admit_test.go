package admit_test

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/admit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func node() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"disk": "ssd", "cores": "8"}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("1Gi"), corev1.ResourcePods: resource.MustParse("3"),
		}},
	}
}

func wants(cpu string) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
	}}}}
}

func affinity(expressions ...corev1.NodeSelectorRequirement) *corev1.Pod {
	pod := wants("0")
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: expressions}},
	}}}
	return pod
}

func TestCheck(t *testing.T) {
	const mismatch = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
	selected := wants("0")
	selected.Spec.NodeSelector = map[string]string{"disk": "hdd"}
	byName := wants("0")
	byName.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}}}}},
	}}}
	gpu := wants("0")
	gpu.Spec.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse("1")
	listens := func(ip string, port int32, protocol corev1.Protocol) *corev1.Pod {
		pod := wants("0")
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostIP: ip, HostPort: port, Protocol: protocol}}
		return pod
	}
	const taken = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
	both := affinity()
	both.Spec.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse("1")
	cases := []struct {
		name            string
		pod             *corev1.Pod
		others          []*corev1.Pod
		reason, message string
	}{
		{"fits", wants("1500m"), []*corev1.Pod{wants("500m")}, "", ""},
		{"too much CPU", wants("1600m"), []*corev1.Pod{wants("500m")}, "OutOfcpu", "Node didn't have enough resource: cpu, requested: 1600, used: 500, capacity: 2000"},
		{"too many pods", wants("0"), []*corev1.Pod{wants("0"), wants("0"), wants("0")}, "OutOfpods", "Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3"},
		{"a missing resource", gpu, nil, "OutOfexample.com/gpu", "Node didn't have enough resource: example.com/gpu, requested: 1, used: 0, capacity: 0"},
		{"another selector", selected, nil, "NodeAffinity", mismatch},
		{"by name", byName, nil, "", ""},
		{"in", affinity(corev1.NodeSelectorRequirement{Key: "disk", Operator: corev1.NodeSelectorOpIn, Values: []string{"ssd"}}), nil, "", ""},
		{"not in", affinity(corev1.NodeSelectorRequirement{Key: "disk", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"ssd"}}), nil, "NodeAffinity", mismatch},
		{"greater", affinity(corev1.NodeSelectorRequirement{Key: "cores", Operator: corev1.NodeSelectorOpGt, Values: []string{"4"}}), nil, "", ""},
		{"less", affinity(corev1.NodeSelectorRequirement{Key: "cores", Operator: corev1.NodeSelectorOpLt, Values: []string{"4"}}), nil, "NodeAffinity", mismatch},
		{"does not exist", affinity(corev1.NodeSelectorRequirement{Key: "gpu", Operator: corev1.NodeSelectorOpDoesNotExist}), nil, "", ""},
		{"an empty term", affinity(), nil, "NodeAffinity", mismatch},
		{"resources before affinity", both, nil, "OutOfexample.com/gpu", "Node didn't have enough resource: example.com/gpu, requested: 1, used: 0, capacity: 0"},
		{"a taken port", listens("", 80, "TCP"), []*corev1.Pod{wants("0"), listens("10.0.0.1", 80, "TCP")}, "NodePorts", taken},
		{"other ports", listens("", 80, "TCP"), []*corev1.Pod{listens("", 81, "TCP"), listens("", 80, "UDP")}, "", ""},
		{"another address", listens("10.0.0.2", 80, "TCP"), []*corev1.Pod{listens("10.0.0.1", 80, "TCP")}, "", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := admit.Check(c.pod, c.others, node())
			switch {
			case c.reason == "" && got != nil:
				t.Errorf("rejected: %+v", got)
			case c.reason != "" && (got == nil || got.Reason != c.reason || got.Message != c.message):
				t.Errorf("got %+v, want %s: %s", got, c.reason, c.message)
			}
		})
	}
}

// TestTaints: only taints that evict pods keep a pod away that was bound already.
func TestTaints(t *testing.T) {
	taint := func(effect corev1.TaintEffect) *corev1.Node {
		n := node()
		n.Spec.Taints = []corev1.Taint{{Key: "k", Value: "v", Effect: effect}}
		return n
	}
	tolerating := func(toleration corev1.Toleration) *corev1.Pod {
		pod := wants("0")
		pod.Spec.Tolerations = []corev1.Toleration{toleration}
		return pod
	}
	for name, c := range map[string]struct {
		pod    *corev1.Pod
		node   *corev1.Node
		reason string
	}{
		"no toleration":         {wants("0"), taint(corev1.TaintEffectNoExecute), "TaintToleration"},
		"that of another value": {tolerating(corev1.Toleration{Key: "k", Value: "w"}), taint(corev1.TaintEffectNoExecute), "TaintToleration"},
		"that of the key": {
			tolerating(corev1.Toleration{Key: "k", Operator: corev1.TolerationOpExists, TolerationSeconds: new(int64)}), taint(corev1.TaintEffectNoExecute), "",
		},
		"NoSchedule":       {wants("0"), taint(corev1.TaintEffectNoSchedule), ""},
		"PreferNoSchedule": {wants("0"), taint(corev1.TaintEffectPreferNoSchedule), ""},
	} {
		got := admit.Check(c.pod, nil, c.node)
		if (got == nil) != (c.reason == "") || got != nil && (got.Reason != c.reason || !got.DependsOnNode()) {
			t.Errorf("%s: got %+v, want reason %q", name, got, c.reason)
		}
	}
	if got := admit.Check(wants("3"), nil, taint(corev1.TaintEffectNoExecute)); got == nil || got.DependsOnNode() {
		t.Errorf("too much CPU: got %+v", got)
	}
}

// TestSizes: the node counts the same requests as quota and scheduler.
func TestSizes(t *testing.T) {
	quantity := func(cpu string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}
	always := corev1.ContainerRestartPolicyAlways
	init := wants("500m")
	init.Spec.InitContainers = []corev1.Container{
		{Name: "s", Resources: corev1.ResourceRequirements{Requests: quantity("200m")}, RestartPolicy: &always},
		{Name: "i", Resources: corev1.ResourceRequirements{Requests: quantity("1")}},
	}
	init.Spec.Overhead = quantity("50m")
	whole := wants("100m")
	whole.Spec.Resources = &corev1.ResourceRequirements{Requests: quantity("1300m")}
	shrinking := wants("100m")
	shrinking.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", AllocatedResources: quantity("1400m")}}
	for _, c := range []struct {
		name string
		pod  *corev1.Pod
		used int
	}{{"an init container beside a sidecar", init, 1250}, {"a pod as a whole", whole, 1300}, {"a pod that shrinks", shrinking, 1400}} {
		t.Run(c.name, func(t *testing.T) {
			want := fmt.Sprintf("Node didn't have enough resource: cpu, requested: 2000, used: %d, capacity: 2000", c.used)
			if got := admit.Check(wants("2"), []*corev1.Pod{c.pod}, node()); got == nil || got.Message != want {
				t.Errorf("got %+v, want %s", got, want)
			}
		})
	}
}

func TestUnsupported(t *testing.T) {
	if got := admit.Unsupported(wants("1")); len(got) != 0 {
		t.Errorf("a plain pod: %q", got)
	}
	class, no := "gvisor", false
	pod := wants("1")
	pod.Spec.RuntimeClassName, pod.Spec.HostUsers = &class, &no
	pod.Spec.Volumes = []corev1.Volume{
		{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "HugePages"}}},
		{VolumeSource: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}},
		{VolumeSource: corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{}}},
	}
	pod.Spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{}}
	debugger := corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debugger"}}
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{}, debugger}
	pod.Spec.EphemeralContainers[1].VolumeDevices = []corev1.VolumeDevice{{}}
	want := "spec.runtimeClassName spec.hostUsers spec.volumes[1].emptyDir.medium spec.volumes[2].nfs spec.volumes[3] spec.containers[0].volumeDevices"
	if got := strings.Join(admit.Unsupported(pod), " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for name, want := range map[string]string{"": "", "debugger": "spec.ephemeralContainers[1].volumeDevices", "none": ""} {
		if got := strings.Join(admit.UnsupportedEphemeral(pod, name), " "); got != want {
			t.Errorf("of the ephemeral container %q: %s, want %s", name, got, want)
		}
	}
}
