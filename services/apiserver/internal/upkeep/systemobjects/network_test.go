package systemobjects_test

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/apiserver/internal/registry/registrytest"
)

// TestDNSService: the DNS servers' Service has the tenth address of the range, and is created only if it is
// wanted; an address that another Service took, and a range without it, keep no apiserver from starting.
func TestDNSService(t *testing.T) {
	t.Parallel()
	w := registrytest.New(t, func(c *registrytest.Config) { c.DNS = true })
	s := registrytest.Get[*corev1.Service](w, "kube-system", "kube-dns")
	if s.Spec.ClusterIP != "10.96.0.10" || len(s.Spec.Ports) != 2 || s.Spec.Ports[0].Protocol != corev1.ProtocolUDP || len(s.Spec.Selector) > 0 {
		t.Errorf("the Service is %+v", s.Spec)
	}
	if a := registrytest.Get[*corev1.ServiceAccount](w, "kube-system", "node-network"); a.UID == "" {
		t.Errorf("the account is %+v", a)
	}
	w.Etcd.DeletePrefix(t, "/registry/services/specs/kube-system/kube-dns")
	w.Etcd.DeletePrefix(t, "/registry/ipaddresses/10.96.0.10")
	registrytest.Create(w, "default", registrytest.Service("thief", func(s *corev1.ServiceSpec) { s.ClusterIP = "10.96.0.10" }))
	if err := w.Objects.Ensure(t.Context()); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		name string
		set  func(*registrytest.Config)
	}{
		{"not wanted", func(*registrytest.Config) {}},
		{"a small range", func(c *registrytest.Config) {
			c.DNS, c.ServiceCIDRs = true, []netip.Prefix{netip.MustParsePrefix("10.96.0.0/29")}
		}},
	} {
		w := registrytest.New(t, c.set)
		if len(w.Etcd.Values(t, "/registry/services/specs/kube-system/")) != 0 {
			t.Errorf("%s: there is a Service", c.name)
		}
	}
}
