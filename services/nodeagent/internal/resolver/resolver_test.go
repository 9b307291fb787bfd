package resolver

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPod(t *testing.T) {
	c := Config{ClusterDNS: []string{"10.96.0.10"}, ClusterDomain: "cluster.local"}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Spec: corev1.PodSpec{DNSPolicy: corev1.DNSClusterFirst}}
	got := c.Pod(pod)
	if got.Servers[0] != "10.96.0.10" || got.Searches[0] != "shop.svc.cluster.local" || got.Options[0] != "ndots:5" {
		t.Errorf("cluster first: %+v", got)
	}
	pod.Spec.DNSPolicy = corev1.DNSDefault
	c.Path = filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(c.Path, []byte("nameserver 1.1.1.1\nsearch a. .\noptions ndots:1 edns0\noptions ndots:2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	host := &runtime.DNSConfig{Servers: []string{"1.1.1.1"}, Searches: []string{"a"}, Options: []string{"edns0", "ndots:2"}}
	if diff := cmp.Diff(host, c.Pod(pod)); diff != "" {
		t.Errorf("default: %s", diff)
	}
	two := "2"
	pod.Spec.DNSPolicy = corev1.DNSNone
	pod.Spec.DNSConfig = &corev1.PodDNSConfig{
		Nameservers: []string{"1.2.3.4"}, Searches: []string{"x"}, Options: []corev1.PodDNSConfigOption{{Name: "ndots", Value: &two}, {Name: "edns0"}},
	}
	want := &runtime.DNSConfig{Servers: []string{"1.2.3.4"}, Searches: []string{"x"}, Options: []string{"ndots:2", "edns0"}}
	if diff := cmp.Diff(want, c.Pod(pod)); diff != "" {
		t.Error(diff)
	}
	pod.Spec.DNSPolicy = corev1.DNSClusterFirst
	if got := c.Pod(pod).Options; strings.Join(got, " ") != "ndots:2 edns0" {
		t.Errorf("the pod's option does not override the cluster's: %q", got)
	}
}

// TestLimits cuts what resolvers do not read.
func TestLimits(t *testing.T) {
	c := Config{ClusterDNS: []string{"10.96.0.10"}, ClusterDomain: "cluster.local"}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Spec: corev1.PodSpec{DNSPolicy: corev1.DNSClusterFirst}}
	own := &corev1.PodDNSConfig{Nameservers: []string{"1.1.1.1", "10.96.0.10", "1.1.1.2", "1.1.1.3"}}
	own.Searches = append(own.Searches, "cluster.local", strings.Repeat("x", 254))
	for i := range 40 {
		own.Searches = append(own.Searches, strings.Repeat("s", 100)+string(rune('a'+i%26)))
	}
	pod.Spec.DNSConfig = own
	got := c.Pod(pod)
	if want := []string{"10.96.0.10", "1.1.1.1", "1.1.1.2"}; !slices.Equal(got.Servers, want) {
		t.Errorf("servers %q, want %q", got.Servers, want)
	}
	if text := strings.Join(got.Searches, " "); len(text) > 2048 || len(text) < 1900 || len(got.Searches) > 32 {
		t.Errorf("%d searches of %d characters", len(got.Searches), len(text))
	}
	for i, search := range got.Searches {
		if len(search) > 253 || slices.Contains(got.Searches[:i], search) {
			t.Errorf("search %q is too long or repeated", search)
		}
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
