package podtemplate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestImageTag(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0123", 16)
	for image, want := range map[string]string{
		"nginx": "latest", "nginx:1.14.2": "1.14.2", "nginx:latest": "latest", "host:5000/a": "latest", "host:5000/a:b": "b",
		"a" + digest: "", "a:b" + digest: "b", "": "", "Bad_Name": "", "a@sha256:0123": "",
	} {
		if got := defaultImageTag(image); got != want {
			t.Errorf("%q: got tag %q, want %q", image, got, want)
		}
	}
}

func FuzzImageTag(f *testing.F) {
	f.Add("host:5000/a:b@sha256:0")
	f.Fuzz(func(t *testing.T, image string) {
		if tag := defaultImageTag(image); len(tag) > max(len(image), len("latest")) {
			t.Errorf("%q: got tag %q", image, tag)
		}
	})
}

func TestDefaultPod(t *testing.T) {
	p := &corev1.Pod{Spec: corev1.PodSpec{
		HostNetwork: true,
		Containers: []corev1.Container{{
			Image: "a", Ports: []corev1.ContainerPort{{ContainerPort: 80}},
			Resources:     corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1.0001")}},
			LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{}, GRPC: &corev1.GRPCAction{}}},
		}},
		Volumes: []corev1.Volume{{Name: "a"}, {Name: "b", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}}},
	}}
	p.Spec.TopologySpreadConstraints = make([]corev1.TopologySpreadConstraint, 1)
	DefaultPod(p)
	if c := p.Spec.TopologySpreadConstraints[0]; c.NodeAffinityPolicy != nil || c.NodeTaintsPolicy != nil {
		t.Errorf("got %+v: the scheduler, not the defaults, knows what an absent policy means", c)
	}
	c := p.Spec.Containers[0]
	if c.ImagePullPolicy != corev1.PullAlways || c.TerminationMessagePath != "/dev/termination-log" || c.TerminationMessagePolicy != corev1.TerminationMessageReadFile {
		t.Errorf("got container %+v", c)
	}
	if port := c.Ports[0]; port.Protocol != corev1.ProtocolTCP || port.HostPort != 80 {
		t.Errorf("got port %+v", port)
	}
	if probe := c.LivenessProbe; probe.TimeoutSeconds != 1 || probe.PeriodSeconds != 10 || probe.SuccessThreshold != 1 ||
		probe.FailureThreshold != 3 || probe.HTTPGet.Path != "/" || probe.HTTPGet.Scheme != corev1.URISchemeHTTP || *probe.GRPC.Service != "" {
		t.Errorf("got probe %+v", probe)
	}
	if cpu := c.Resources.Requests["cpu"]; cpu.String() != "1001m" {
		t.Errorf("got request %s", cpu.String())
	}
	if p.Spec.Volumes[0].EmptyDir == nil || *p.Spec.Volumes[1].ConfigMap.DefaultMode != 0o644 {
		t.Errorf("got volumes %+v", p.Spec.Volumes)
	}
	if p.Spec.DNSPolicy != corev1.DNSClusterFirst || p.Spec.SecurityContext == nil {
		t.Errorf("got spec %+v", p.Spec)
	}
}

func TestPodParts(t *testing.T) {
	p := &corev1.Pod{
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(-3)),
			Containers:                    []corev1.Container{{Env: []corev1.EnvVar{{ValueFrom: &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{}}}}}},
			Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{
				Secret: &corev1.SecretVolumeSource{}, ISCSI: &corev1.ISCSIVolumeSource{},
				Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{}},
			}}},
		},
		Status: corev1.PodStatus{AllocatedResources: corev1.ResourceList{"cpu": resource.MustParse("0.5m")}},
	}
	template := corev1.PodTemplateSpec{Spec: *p.Spec.DeepCopy()}
	DefaultPod(p)
	if seconds := *p.Spec.TerminationGracePeriodSeconds; seconds != 1 {
		t.Errorf("a pod that cannot wait waits %d s, want 1", seconds)
	}
	if DefaultPodTemplate(&template); *template.Spec.TerminationGracePeriodSeconds != -3 {
		t.Error("the grace period of a template changed")
	}
	if optional := p.Spec.Containers[0].Env[0].ValueFrom.FileKeyRef.Optional; optional == nil || *optional {
		t.Errorf("a variable in a file is optional: %v, want false", optional)
	}
	// A volume with more than one source is invalid, but the error must be about that.
	v := p.Spec.Volumes[0]
	if v.Secret.DefaultMode == nil || v.ISCSI.ISCSIInterface != "default" || v.Ephemeral.VolumeClaimTemplate.Spec.VolumeMode == nil {
		t.Errorf("got volume %+v", v)
	}
	if cpu := p.Status.AllocatedResources["cpu"]; cpu.String() != "1m" {
		t.Errorf("got %s of CPU, want 1m", cpu.String())
	}
}

// TestPodsOwnDefaults checks what a pod gets and its template does not: requests, and its address in
// both fields.
func TestPodsOwnDefaults(t *testing.T) {
	amounts := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
	}
	limited := corev1.ResourceRequirements{Limits: amounts("2", "2Gi"), Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}
	for _, tc := range []struct {
		ip, first, wantIP, wantFirst string
	}{{"", "", "", ""}, {"1.2.3.4", "", "1.2.3.4", "1.2.3.4"}, {"", "1.2.3.4", "1.2.3.4", "1.2.3.4"}, {"1.2.3.4", "5.6.7.8", "1.2.3.4", "1.2.3.4"}} {
		pod := &corev1.Pod{Status: corev1.PodStatus{PodIP: tc.ip}, Spec: corev1.PodSpec{
			DeprecatedServiceAccount: "old", Containers: []corev1.Container{{Resources: *limited.DeepCopy()}}, InitContainers: []corev1.Container{{Resources: *limited.DeepCopy()}},
		}}
		if tc.first != "" {
			pod.Status.PodIPs = []corev1.PodIP{{IP: tc.first}, {IP: "::1"}}
		}
		template := &corev1.PodTemplateSpec{Spec: *pod.Spec.DeepCopy()}
		DefaultPodTemplate(template)
		if diff := cmp.Diff(limited, template.Spec.Containers[0].Resources); diff != "" {
			t.Errorf("template (-want +got):\n%s", diff)
		}
		DefaultPod(pod)
		want := corev1.ResourceRequirements{Limits: amounts("2", "2Gi"), Requests: amounts("1", "2Gi")}
		if diff := cmp.Diff([]corev1.ResourceRequirements{want, want}, []corev1.ResourceRequirements{pod.Spec.InitContainers[0].Resources, pod.Spec.Containers[0].Resources}); diff != "" {
			t.Errorf("pod (-want +got):\n%s", diff)
		}
		if got := pod.Status; got.PodIP != tc.wantIP || tc.wantFirst != "" && got.PodIPs[0].IP != tc.wantFirst {
			t.Errorf("%+v: got the addresses %s and %v", tc, got.PodIP, got.PodIPs)
		}
		if got := pod.Spec.ServiceAccountName; got != "old" {
			t.Errorf("got the service account %q, want that of the older field", got)
		}
	}
}

// TestRounding checks that amounts of a pod and of its status are rounded up to thousandths.
func TestRounding(t *testing.T) {
	fine := func() corev1.ResourceList { return corev1.ResourceList{"cpu": resource.MustParse("0.0001")} }
	both := func() *corev1.ResourceRequirements {
		return &corev1.ResourceRequirements{Limits: fine(), Requests: fine()}
	}
	statuses := func() []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{AllocatedResources: fine(), Resources: both()}}
	}
	pod := &corev1.Pod{
		Spec: corev1.PodSpec{Resources: both(), Overhead: fine(), TerminationGracePeriodSeconds: new(int64(0)), EphemeralContainers: []corev1.EphemeralContainer{{}}},
		Status: corev1.PodStatus{
			AllocatedResources: fine(), Resources: both(), ContainerStatuses: statuses(), InitContainerStatuses: statuses(), EphemeralContainerStatuses: statuses(),
		},
	}
	DefaultPod(pod)
	lists := []corev1.ResourceList{pod.Spec.Overhead, pod.Status.AllocatedResources}
	all := []*corev1.ResourceRequirements{pod.Spec.Resources, pod.Status.Resources}
	for _, s := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses, pod.Status.EphemeralContainerStatuses} {
		lists, all = append(lists, s[0].AllocatedResources), append(all, s[0].Resources)
	}
	for _, r := range all {
		lists = append(lists, r.Limits, r.Requests)
	}
	for i, list := range lists {
		if got := list.Cpu().String(); got != "1m" {
			t.Errorf("list %d: got %s of CPU, want 1m", i, got)
		}
	}
	if got := *pod.Spec.TerminationGracePeriodSeconds; got != 0 {
		t.Errorf("a pod that ends at once waits %d s", got)
	}
	if c := pod.Spec.EphemeralContainers[0]; c.ImagePullPolicy == "" || c.TerminationMessagePath == "" {
		t.Errorf("got the ephemeral container %+v", c)
	}
}
