package podlifecycle

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestResources(t *testing.T) {
	node := &corev1.Node{Status: corev1.NodeStatus{Capacity: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("10Gi")}}}
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	cases := []struct {
		name  string
		class corev1.PodQOSClass
		in    corev1.ResourceRequirements
		want  runtime.Resources
	}{
		{"nothing requested", corev1.PodQOSBestEffort, corev1.ResourceRequirements{}, runtime.Resources{CPUShares: 2, CPUPeriod: 100000, OOMScoreAdj: 1000}},
		{"guaranteed", corev1.PodQOSGuaranteed, corev1.ResourceRequirements{Requests: list("500m", "1Gi"), Limits: list("500m", "1Gi")},
			runtime.Resources{CPUShares: 512, CPUQuota: 50000, CPUPeriod: 100000, MemoryLimit: 1 << 30, OOMScoreAdj: -997}},
		{"burstable", corev1.PodQOSBurstable, corev1.ResourceRequirements{Requests: list("2", "5Gi")}, runtime.Resources{CPUShares: 2048, CPUPeriod: 100000, OOMScoreAdj: 500}},
		{"a limit implies the request", corev1.PodQOSBurstable, corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("5m")}},
			runtime.Resources{CPUShares: 5, CPUQuota: 1000, CPUPeriod: 100000, OOMScoreAdj: 999}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			pod := &corev1.Pod{Status: corev1.PodStatus{QOSClass: c.class}}
			got := (&Lifecycle{}).resources(pod, &corev1.Container{Resources: c.in}, node)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSecurity(t *testing.T) {
	yes, no, user, other, group := true, false, int64(1000), int64(2000), int64(3000)
	pod := &corev1.Pod{Spec: corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{
		RunAsUser: &user, FSGroup: &group, SupplementalGroups: []int64{7},
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}}}
	c := &corev1.Container{SecurityContext: &corev1.SecurityContext{
		RunAsUser: &other, ReadOnlyRootFilesystem: &yes, AllowPrivilegeEscalation: &no,
		Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_ADMIN"}, Drop: []corev1.Capability{"ALL"}},
	}}
	s := (&Lifecycle{}).security(pod, c)
	if *s.RunAsUser != other || !s.ReadOnlyRootFS || !s.NoNewPrivs || s.Privileged || s.Seccomp.Type != "RuntimeDefault" || len(s.MaskedPaths) == 0 {
		t.Errorf("security: %+v", s)
	}
	if diff := cmp.Diff([]int64{3000, 7}, s.SupplementalGroups); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"NET_ADMIN", "ALL"}, append(s.AddCapabilities, s.DropCapabilities...)); diff != "" {
		t.Error(diff)
	}
	if s := (&Lifecycle{}).security(&corev1.Pod{}, &corev1.Container{SecurityContext: &corev1.SecurityContext{Privileged: &yes}}); !s.Privileged || len(s.MaskedPaths) == 0 {
		t.Errorf("a privileged container: %+v", s)
	}
}

// TestPortMappings maps the ports of what runs as long as the pod.
func TestPortMappings(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	port := func(name string, host int32) []corev1.ContainerPort {
		return []corev1.ContainerPort{{Name: name, ContainerPort: 80, HostPort: host}}
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "i", Ports: port("i", 1)}, {Name: "s", RestartPolicy: &always, Ports: port("s", 2)}},
		Containers:     []corev1.Container{{Name: "a", Ports: append(port("a", 3), port("a", 4)...)}},
	}}
	var hosts []int32
	for _, mapping := range (&Lifecycle{}).sandboxConfig(pod, 0).PortMappings {
		hosts = append(hosts, mapping.HostPort)
	}
	if !slices.Equal(hosts, []int32{3, 2}) {
		t.Errorf("ports of the host: %d", hosts)
	}
}

// TestHugePages limits each size of the kernel, and no other.
func TestHugePages(t *testing.T) {
	l := &Lifecycle{cfg: Config{HugePageSizes: []string{"1GB", "2MB"}}}
	c := &corev1.Container{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
		"hugepages-2Mi": resource.MustParse("64Mi"), "hugepages-64Ki": resource.MustParse("1Mi"), "hugepages-bad": resource.MustParse("1"),
	}}}
	want := []runtime.HugePageLimit{{PageSize: "1GB"}, {PageSize: "2MB", Limit: 64 << 20}}
	if diff := cmp.Diff(want, l.hugePages(c)); diff != "" {
		t.Error(diff)
	}
}

// TestOOMScores covers what depends on more than the container.
func TestOOMScores(t *testing.T) {
	node := &corev1.Node{Status: corev1.NodeStatus{Capacity: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("10Gi")}}}
	memory := func(text string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(text)}}
	}
	always := corev1.ContainerRestartPolicyAlways
	sidecar := corev1.Container{Name: "s", RestartPolicy: &always, Resources: memory("1Gi")}
	pod := &corev1.Pod{
		Spec:   corev1.PodSpec{InitContainers: []corev1.Container{sidecar}, Containers: []corev1.Container{{Resources: memory("5Gi")}, {Resources: memory("3Gi")}}},
		Status: corev1.PodStatus{QOSClass: corev1.PodQOSBurstable},
	}
	if got := oomScore(pod, &sidecar, node); got != 700 {
		t.Errorf("a sidecar: %d, want that of the least container, 700", got)
	}
	priority := int32(systemCriticalPriority + 1000)
	pod.Spec.Priority, pod.Spec.PriorityClassName = &priority, systemNodeCritical
	if got := oomScore(pod, &sidecar, node); got != scoreGuaranteed {
		t.Errorf("a pod that the node needs: %d", got)
	}
}

// TestCgroupV2 kills the processes of a container together.
func TestCgroupV2(t *testing.T) {
	l := &Lifecycle{cfg: Config{CgroupV2: true}}
	got := l.resources(&corev1.Pod{Status: corev1.PodStatus{QOSClass: corev1.PodQOSBestEffort}}, &corev1.Container{}, &corev1.Node{}).Unified
	want := map[string]string{"memory.oom.group": "1", "memory.min": "0", "memory.low": "0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := l.podResources(&corev1.Pod{}).Unified; len(got) != 1 {
		t.Errorf("a pod: %v", got)
	}
}

// TestSELinux passes on what the container asks for, and else what the pod does.
func TestSELinux(t *testing.T) {
	l := &Lifecycle{}
	pod := &corev1.Pod{Spec: corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Level: "s0"}}}}
	if got := l.security(pod, &corev1.Container{}).SELinux; got == nil || *got != (runtime.SELinuxLabel{Level: "s0"}) {
		t.Errorf("of the pod: %+v", got)
	}
	own := &corev1.Container{SecurityContext: &corev1.SecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Type: "spc_t", User: "u", Role: "r"}}}
	if got := l.security(pod, own).SELinux; got == nil || *got != (runtime.SELinuxLabel{Type: "spc_t", User: "u", Role: "r"}) {
		t.Errorf("of the container: %+v", got)
	}
	if got := l.security(&corev1.Pod{}, &corev1.Container{}).SELinux; got != nil {
		t.Errorf("of neither: %+v", got)
	}
}

// TestAppArmor passes on what the pod and then the container asks for.
func TestAppArmor(t *testing.T) {
	unconfined := &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	pod := &corev1.Pod{Spec: corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{
		AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault},
	}}}
	l := &Lifecycle{}
	if got := l.security(pod, &corev1.Container{}).AppArmor; got == nil || got.Type != "RuntimeDefault" {
		t.Errorf("the pod's: %+v", got)
	}
	own := &corev1.Container{SecurityContext: &corev1.SecurityContext{AppArmorProfile: unconfined}}
	if got := l.security(pod, own).AppArmor; got == nil || got.Type != "Unconfined" {
		t.Errorf("the container's: %+v", got)
	}
	if got := l.security(&corev1.Pod{}, &corev1.Container{}).AppArmor; got != nil {
		t.Errorf("none: %+v", got)
	}
}

func TestHosts(t *testing.T) {
	l := &Lifecycle{cfg: Config{ClusterDomain: "cluster.local"}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0"},
		Spec: corev1.PodSpec{
			Subdomain: "web", HostAliases: []corev1.HostAlias{{IP: "1.2.3.4", Hostnames: []string{"a", "b"}}},
		},
		Status: corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}}},
	}
	got := l.hosts(pod)
	for _, want := range []string{"# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n", "\n10.0.0.1\tweb-0.web.shop.svc.cluster.local\tweb-0\n", "\n1.2.3.4\ta\tb\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if name := hostname(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("a", 62) + "-b"}}); name != strings.Repeat("a", 62) {
		t.Errorf("host name %q", name)
	}
}

func TestContainerReference(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}}, InitContainers: []corev1.Container{{Name: "i"}}}}
	if got := ContainerReference(pod, "a").FieldPath; got != "spec.containers{a}" {
		t.Error(got)
	}
	if got := ContainerReference(pod, "i").FieldPath; got != "spec.initContainers{i}" {
		t.Error(got)
	}
}

func TestGrace(t *testing.T) {
	for want, spec := range map[time.Duration]int64{
		7 * time.Second: 7, math.MaxInt32 * time.Second: math.MaxInt64 / int64(time.Second) * 2,
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &spec}}
		if got := graceOf(pod); got != want {
			t.Errorf("a grace period of %d seconds is %v, want %v", spec, got, want)
		}
	}
	if got := graceOf(&corev1.Pod{}); got != 30*time.Second {
		t.Errorf("the default grace period is %v", got)
	}
}
