package podlifecycle

import (
	"math"
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
		{"nothing requested", corev1.PodQOSBestEffort, corev1.ResourceRequirements{}, runtime.Resources{CPUShares: 2, OOMScoreAdj: 1000}},
		{"guaranteed", corev1.PodQOSGuaranteed, corev1.ResourceRequirements{Requests: list("500m", "1Gi"), Limits: list("500m", "1Gi")},
			runtime.Resources{CPUShares: 512, CPUQuota: 50000, CPUPeriod: 100000, MemoryLimit: 1 << 30, OOMScoreAdj: -997}},
		{"burstable", corev1.PodQOSBurstable, corev1.ResourceRequirements{Requests: list("2", "5Gi")}, runtime.Resources{CPUShares: 2048, OOMScoreAdj: 500}},
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
	if diff := cmp.Diff([]int64{7, 3000}, s.SupplementalGroups); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"NET_ADMIN", "ALL"}, append(s.AddCapabilities, s.DropCapabilities...)); diff != "" {
		t.Error(diff)
	}
	if s := (&Lifecycle{}).security(&corev1.Pod{}, &corev1.Container{SecurityContext: &corev1.SecurityContext{Privileged: &yes}}); !s.Privileged || len(s.MaskedPaths) != 0 {
		t.Errorf("a privileged container: %+v", s)
	}
}

func TestDNS(t *testing.T) {
	l := &Lifecycle{cfg: Config{ClusterDNS: []string{"10.96.0.10"}, ClusterDomain: "cluster.local"}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Spec: corev1.PodSpec{DNSPolicy: corev1.DNSClusterFirst}}
	got := l.dns(pod)
	if got.Servers[0] != "10.96.0.10" || got.Searches[0] != "shop.svc.cluster.local" || got.Options[0] != "ndots:5" {
		t.Errorf("cluster first: %+v", got)
	}
	pod.Spec.DNSPolicy = corev1.DNSDefault
	if got := l.dns(pod); got != nil {
		t.Errorf("default: %+v", got)
	}
	two := "2"
	pod.Spec.DNSPolicy = corev1.DNSNone
	pod.Spec.DNSConfig = &corev1.PodDNSConfig{
		Nameservers: []string{"1.2.3.4"}, Searches: []string{"x"}, Options: []corev1.PodDNSConfigOption{{Name: "ndots", Value: &two}, {Name: "edns0"}},
	}
	want := &runtime.DNSConfig{Servers: []string{"1.2.3.4"}, Searches: []string{"x"}, Options: []string{"ndots:2", "edns0"}}
	if diff := cmp.Diff(want, l.dns(pod)); diff != "" {
		t.Error(diff)
	}
	pod.Spec.DNSPolicy = corev1.DNSClusterFirst
	if got := l.dns(pod).Options; strings.Join(got, " ") != "ndots:2 edns0" {
		t.Errorf("the pod's option does not override the cluster's: %q", got)
	}
}

func FuzzParseResolver(f *testing.F) {
	f.Add("nameserver 1.1.1.1\nsearch a b\noptions ndots:5\n")
	f.Add("search\n\n# nothing\nnameserver")
	f.Fuzz(func(t *testing.T, text string) {
		for _, server := range parseResolver(text).Servers {
			if server == "" || strings.ContainsAny(server, " \n") {
				t.Errorf("server %q of %q", server, text)
			}
		}
	})
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
