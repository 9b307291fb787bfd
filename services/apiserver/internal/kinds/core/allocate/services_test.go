package allocate_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/allocate"
	"github.com/garboard/garboard/services/apiserver/internal/registry/registrytest"
)

func TestServiceTypes(t *testing.T) {
	t.Parallel()
	w := registrytest.New(t)
	plain := registrytest.Create(w, "default", registrytest.Service("plain"))
	spec := plain.Spec
	if !netip.MustParsePrefix("10.96.0.0/12").Contains(netip.MustParseAddr(spec.ClusterIP)) || spec.ClusterIPs[0] != spec.ClusterIP ||
		*spec.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack || spec.IPFamilies[0] != corev1.IPv4Protocol ||
		spec.Ports[0].TargetPort.IntVal != 80 || spec.Ports[0].Protocol != corev1.ProtocolTCP || spec.Ports[0].NodePort != 0 ||
		spec.SessionAffinity != corev1.ServiceAffinityNone || *spec.InternalTrafficPolicy != corev1.ServiceInternalTrafficPolicyCluster {
		t.Errorf("a plain service is %+v", spec)
	}
	headless := registrytest.Create(w, "default", registrytest.Service("headless", func(s *corev1.ServiceSpec) { s.ClusterIP = "None" }))
	if !slices.Equal(headless.Spec.ClusterIPs, []string{"None"}) {
		t.Errorf("a headless service is %+v", headless.Spec)
	}
	external := registrytest.Create(w, "default", registrytest.Service("external", func(s *corev1.ServiceSpec) {
		s.Type, s.ExternalName, s.Ports = corev1.ServiceTypeExternalName, "example.com", nil
	}))
	if external.Spec.ClusterIP != "" || external.Spec.IPFamilies != nil {
		t.Errorf("an external service is %+v", external.Spec)
	}
	node := registrytest.Create(w, "default", registrytest.Service("node", func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeNodePort }))
	port := node.Spec.Ports[0].NodePort
	if port < 30000 || port > 32767 || node.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyCluster {
		t.Errorf("a node port service is %+v", node.Spec)
	}
	for _, tc := range []struct {
		name string
		spec func(*corev1.ServiceSpec)
		want string
	}{
		{"taken address", func(s *corev1.ServiceSpec) { s.ClusterIP = plain.Spec.ClusterIP }, fmt.Sprintf(`spec.clusterIPs: Invalid value: ["%s"]: failed to allocate IP %[1]s: provided IP is already allocated`, plain.Spec.ClusterIP)},
		{"foreign address", func(s *corev1.ServiceSpec) { s.ClusterIP = "192.0.2.1" }, `spec.clusterIPs: Invalid value: ["192.0.2.1"]: failed to allocate IP 192.0.2.1: the provided network does not match the current range`},
		{"taken port", func(s *corev1.ServiceSpec) { s.Type, s.Ports[0].NodePort = corev1.ServiceTypeNodePort, port }, fmt.Sprintf("spec.ports[0].nodePort: Invalid value: %d: provided port is already allocated", port)},
		{"foreign port", func(s *corev1.ServiceSpec) { s.Type, s.Ports[0].NodePort = corev1.ServiceTypeNodePort, 80 }, "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767"},
		{"port of a plain service", func(s *corev1.ServiceSpec) { s.Ports[0].NodePort = 30001 }, "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"},
		{"no ports", func(s *corev1.ServiceSpec) { s.Ports = nil }, "spec.ports: Required value"},
		{"unnamed ports", func(s *corev1.ServiceSpec) { s.Ports = []corev1.ServicePort{{Port: 1}, {Port: 2}} }, "spec.ports[0].name: Required value"},
		{"unknown type", func(s *corev1.ServiceSpec) { s.Type = "Magic" }, "spec.type: Unsupported value: \"Magic\""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := registrytest.Of[*corev1.Service](w).Create(t.Context(), "default", registrytest.Service("x", tc.spec), metav1.CreateOptions{})
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v\nwant %s", err, tc.want)
			}
		})
	}

	changed, err := registrytest.Update(w, "default", "plain", "", func(s *corev1.Service) {
		s.Spec.ClusterIP, s.Spec.ClusterIPs, s.Spec.Type = "", nil, corev1.ServiceTypeNodePort
	})
	if err != nil || changed.Spec.ClusterIP != plain.Spec.ClusterIP || changed.Spec.Ports[0].NodePort == 0 {
		t.Fatalf("becoming a node port service: %v, %+v", err, changed)
	}
	given := changed.Spec.Ports[0].NodePort
	changed, err = registrytest.Update(w, "default", "plain", "", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
	if err != nil || changed.Spec.Ports[0].NodePort != 0 {
		t.Fatalf("becoming plain again: %v, %+v", err, changed)
	}
	used, err := w.Ports().Used(t.Context())
	if err != nil || slices.Contains(used, given) || !slices.Contains(used, port) {
		t.Errorf("the ports in use are %v (%v), want %d and not %d", used, err, port, given)
	}
	_, err = registrytest.Update(w, "default", "plain", "", func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "10.96.0.77", []string{"10.96.0.77"} })
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "may not change once set") {
		t.Errorf("another address: %v", err)
	}
	if _, _, err := registrytest.Of[*corev1.Service](w).Delete(t.Context(), "default", "plain", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	again := registrytest.Create(w, "default", registrytest.Service("again", func(s *corev1.ServiceSpec) { s.ClusterIP = plain.Spec.ClusterIP }))
	if again.Spec.ClusterIP != plain.Spec.ClusterIP {
		t.Errorf("the released address was not given: %+v", again.Spec)
	}
}

func TestAddressesAreExactUnderConcurrency(t *testing.T) {
	t.Parallel()
	w := registrytest.New(t, func(c *registrytest.Config) {
		c.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.7.0.0/27")} // 30 addresses, one of them the kubernetes Service's
		c.NodePorts = allocate.PortRange{First: 30000, Last: 30019}
	})
	services := registrytest.Of[*corev1.Service](w)
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			s := registrytest.Service(fmt.Sprintf("s%d", i), func(s *corev1.ServiceSpec) {
				if i%2 == 0 {
					s.Type = corev1.ServiceTypeNodePort
				}
			})
			if _, err := services.Create(t.Context(), "default", s, metav1.CreateOptions{}); err != nil && !strings.Contains(err.Error(), "range is full") {
				t.Errorf("creating: %v", err)
			}
		})
	}
	wg.Wait()
	list, err := services.List(t.Context(), "", metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ips, ports := map[string]string{}, map[int32]string{}
	items := list.(*corev1.ServiceList).Items
	for _, s := range items {
		if other := ips[s.Spec.ClusterIP]; other != "" {
			t.Errorf("%s and %s both have %s", s.Name, other, s.Spec.ClusterIP)
		}
		ips[s.Spec.ClusterIP] = s.Name
		for _, p := range s.Spec.Ports {
			if other := ports[p.NodePort]; p.NodePort != 0 && other != "" {
				t.Errorf("%s and %s both have port %d", s.Name, other, p.NodePort)
			}
			ports[p.NodePort] = s.Name
		}
	}
	if len(items) != 30 {
		t.Errorf("%d services have an address, want 30", len(items))
	}
	if recorded := w.Etcd.Values(t, "/registry/ipaddresses/"); len(recorded) != 30 {
		t.Errorf("%d addresses are recorded, want 30", len(recorded))
	}
}

func TestFurtherRanges(t *testing.T) {
	t.Parallel()
	w := registrytest.New(t, func(c *registrytest.Config) { c.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.7.0.0/30")} })
	registrytest.Create(w, "default", registrytest.Service("last"))
	fails := func(s *corev1.Service, want string) {
		t.Helper()
		for _, dryRun := range [][]string{{"All"}, nil} {
			_, err := registrytest.Of[*corev1.Service](w).Create(t.Context(), "default", s.DeepCopy(), metav1.CreateOptions{DryRun: dryRun})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		}
	}
	fails(registrytest.Service("x"), "failed to allocate a serviceIP: range is full")
	// From the lower part of the range: automatic allocation uses a random address of the upper
	// part.
	chosen := registrytest.Service("chosen", func(s *corev1.ServiceSpec) { s.ClusterIP = "10.8.0.9" })
	fails(chosen, "failed to allocate IP 10.8.0.9: the provided network does not match the current range")
	registrytest.Create(w, "", &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "more", Finalizers: []string{"example.com/hold"}}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.8.0.0/24"}}})
	registrytest.InRange(t, "10.8.0.0/24", registrytest.Create(w, "default", registrytest.Service("x")).Spec.ClusterIP)
	registrytest.Create(w, "default", chosen.DeepCopy())
	if _, _, err := registrytest.Of[*networkingv1.ServiceCIDR](w).Delete(t.Context(), "", "more", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	fails(registrytest.Service("y"), "range is full")
	if _, _, err := registrytest.Of[*corev1.Service](w).Delete(t.Context(), "default", "last", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	registrytest.InRange(t, "10.7.0.0/30", registrytest.Create(w, "default", registrytest.Service("y")).Spec.ClusterIP)
}
