package allocate_test

import (
	"fmt"
	"math/rand"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/allocate"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
	"github.com/garboard/garboard/services/apiserver/internal/registry/registrytest"
)

// more returns w and n further registries on the same etcd, each with its own connection, like further
// apiservers.
func more(w *registrytest.World, n int) []*registrytest.World {
	all := []*registrytest.World{w}
	for range n {
		all = append(all, w.Another(func(c *registrytest.Config) { c.Feeds = w.Feeds }))
	}
	return all
}

// churner creates, changes and deletes services at random.
type churner struct {
	*rand.Rand
	services *registry.Resource
	names    int
}

// fullness reports whether an error is one that a crowded range may cause.
func fullness(err error) bool {
	for _, text := range []string{"range is full", "provided IP is already allocated", "provided port is already allocated"} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err)
}

func (c *churner) spec(s *corev1.ServiceSpec) {
	s.Type = []corev1.ServiceType{"ClusterIP", "NodePort", "LoadBalancer", "ExternalName"}[c.Intn(4)]
	if s.Type == corev1.ServiceTypeExternalName {
		s.ExternalName = "example.com"
		return
	}
	s.IPFamilyPolicy = new([]corev1.IPFamilyPolicy{"SingleStack", "PreferDualStack", "RequireDualStack"}[c.Intn(3)])
	s.ExternalTrafficPolicy = ""
	if s.Type == corev1.ServiceTypeLoadBalancer && c.Intn(2) == 0 {
		s.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	}
	if s.Type == corev1.ServiceTypeNodePort && c.Intn(3) == 0 {
		s.Ports[0].NodePort = 30000 + int32(c.Intn(20))
	}
}

// step makes one change and returns any error that a crowded range does not explain.
func (c *churner) step(t *testing.T) error {
	name := fmt.Sprintf("s%d", c.Intn(c.names))
	var err error
	switch c.Intn(4) {
	case 0, 1:
		s := registrytest.Service(name, func(s *corev1.ServiceSpec) {
			s.Ports = []corev1.ServicePort{{Name: "a", Port: 80}, {Name: "b", Port: 80, Protocol: "UDP"}}
			if c.Intn(4) == 0 {
				s.ClusterIP = fmt.Sprintf("10.7.0.%d", 1+c.Intn(30))
			}
			c.spec(s)
			if s.Type == corev1.ServiceTypeExternalName {
				s.ClusterIP, s.Ports = "", nil
			}
		})
		_, err = c.services.Create(t.Context(), "default", s, metav1.CreateOptions{})
	case 2:
		_, err = c.services.Update(t.Context(), "default", name, func(current scheme.Object) (scheme.Object, error) {
			s, ok := current.DeepCopyObject().(*corev1.Service)
			if !ok || s.UID == "" {
				return nil, apierrors.NewNotFound(corev1.Resource("services"), name)
			}
			if len(s.Spec.Ports) == 0 {
				s.Spec.Ports = []corev1.ServicePort{{Name: "a", Port: 80}}
			}
			c.spec(&s.Spec)
			return s, nil
		}, registry.UpdateOptions{})
		if apierrors.IsInvalid(err) && !fullness(err) {
			err = nil // A service of that type cannot have this change.
		}
	default:
		_, _, err = c.services.Delete(t.Context(), "default", name, metav1.DeleteOptions{})
	}
	if err != nil && !fullness(err) {
		return err
	}
	return nil
}

// held returns every address and node port in use, with the services that have it.
func held(t *testing.T, w *registrytest.World) (ips map[string][]string, nodePorts map[int32][]string, names []string) {
	t.Helper()
	list, err := registrytest.Of[*corev1.Service](w).List(t.Context(), "", metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ips, nodePorts = map[string][]string{}, map[int32][]string{}
	for _, s := range list.(*corev1.ServiceList).Items {
		if s.Name != "kubernetes" {
			names = append(names, s.Name)
		}
		for _, ip := range s.Spec.ClusterIPs {
			ips[ip] = append(ips[ip], s.Name)
		}
		mine := map[int32]bool{s.Spec.HealthCheckNodePort: true}
		for _, p := range s.Spec.Ports {
			mine[p.NodePort] = true
		}
		for port := range mine {
			if port != 0 {
				nodePorts[port] = append(nodePorts[port], s.Name)
			}
		}
	}
	return ips, nodePorts, names
}

// TestServicesNeverShare lets several apiservers allocate from a small range at once: nothing is
// ever allocated twice, the records match the services, and nothing is left when the services are
// gone.
func TestServicesNeverShare(t *testing.T) {
	t.Parallel()
	w := registrytest.New(t, func(c *registrytest.Config) {
		c.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.7.0.0/27"), netip.MustParsePrefix("fd00:7::/124")}
		c.NodePorts = allocate.PortRange{First: 30000, Last: 30019}
	})
	var wg sync.WaitGroup
	for i, r := range more(w, 3) {
		for worker := range 2 {
			c := &churner{Rand: rand.New(rand.NewSource(int64(10*i + worker))), services: r.Resource(scheme.For[*corev1.Service](w.Table)), names: 40}
			wg.Go(func() {
				for range 50 {
					if err := c.step(t); err != nil {
						t.Errorf("an unexpected answer: %v", err)
					}
				}
			})
		}
	}
	wg.Wait()
	ips, nodePorts, names := held(t, w)
	for ip, services := range ips {
		if len(services) > 1 {
			t.Errorf("%v all have %s", services, ip)
		}
	}
	for port, services := range nodePorts {
		if len(services) > 1 {
			t.Errorf("%v all have port %d", services, port)
		}
	}
	var want []string
	for ip := range ips {
		want = append(want, ip)
	}
	slices.Sort(want)
	if got := w.Addresses(); !slices.Equal(got, want) {
		t.Errorf("the addresses recorded are %v, services have %v", got, want)
	}
	used, err := w.Ports().Used(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, port := range used {
		if len(nodePorts[port]) == 0 {
			t.Errorf("port %d is recorded, but no service has it", port)
		}
	}
	if len(used) != len(nodePorts) {
		t.Errorf("%d ports are recorded, services have %d", len(used), len(nodePorts))
	}
	if len(names) < 10 {
		t.Errorf("only %d services are left: the test proves little", len(names))
	}
	for _, name := range names {
		if _, _, err := registrytest.Of[*corev1.Service](w).Delete(t.Context(), "default", name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.Addresses(); !slices.Equal(got, []string{"10.7.0.1"}) {
		t.Errorf("when all are gone %v are recorded", got)
	}
	if used, err := w.Ports().Used(t.Context()); err != nil || len(used) > 0 {
		t.Errorf("when all are gone ports %v are recorded: %v", used, err)
	}
	if err := w.Objects.Repair(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.Addresses(); !slices.Equal(got, []string{"10.7.0.1"}) {
		t.Errorf("after repairing %v are recorded", got)
	}
}

// TestAFullRangeIsGivenOutWhole checks that many concurrent requests get every one of the last
// addresses.
func TestAFullRangeIsGivenOutWhole(t *testing.T) {
	t.Parallel()
	w := registrytest.New(t, func(c *registrytest.Config) {
		c.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.7.0.0/26")} // 62 addresses, one of them the kubernetes Service's
		c.NodePorts = allocate.PortRange{First: 30000, Last: 30019}
	})
	registries := more(w, 2)
	var wg sync.WaitGroup
	var mu sync.Mutex
	full := 0
	for i := range 80 {
		services := registries[i%len(registries)].Resource(scheme.For[*corev1.Service](w.Table))
		wg.Go(func() {
			_, err := services.Create(t.Context(), "default", registrytest.Service(fmt.Sprintf("s%d", i)), metav1.CreateOptions{})
			if err == nil {
				return
			}
			if !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "failed to allocate a serviceIP: range is full") {
				t.Errorf("creating: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			full++
		})
	}
	wg.Wait()
	if n := len(w.Addresses()); n != 62 || full != 80-61 {
		t.Errorf("%d addresses are recorded, want 62; %d found the range full, want %d", n, full, 80-61)
	}
}

// TestPortsOfServices requests ports only from the lower part of the range: automatic allocation
// uses the upper part while it has any left.
func TestPortsOfServices(t *testing.T) {
	t.Parallel()
	w := registrytest.New(t, registrytest.DualStack)
	udp := registrytest.Create(w, "default", registrytest.Service("dns", func(s *corev1.ServiceSpec) {
		s.Type, s.Ports = "NodePort", []corev1.ServicePort{{Name: "a", Port: 53}, {Name: "b", Port: 53, Protocol: "UDP"}, {Name: "c", Port: 54}}
	})).Spec.Ports
	if udp[0].NodePort == 0 || udp[0].NodePort != udp[1].NodePort || udp[2].NodePort == udp[0].NodePort {
		t.Errorf("the node ports of a port with two protocols are %+v", udp)
	}
	chosen := registrytest.Create(w, "default", registrytest.Service("chosen", func(s *corev1.ServiceSpec) {
		s.Type, s.Ports = "NodePort", []corev1.ServicePort{{Name: "a", Port: 53}, {Name: "b", Port: 53, Protocol: "UDP", NodePort: 30005}}
	})).Spec.Ports
	if chosen[0].NodePort != 30005 || chosen[1].NodePort != 30005 {
		t.Errorf("the chosen node port is %+v", chosen)
	}
	bare := registrytest.Create(w, "default", registrytest.Service("bare", func(s *corev1.ServiceSpec) {
		s.Type, s.AllocateLoadBalancerNodePorts = "LoadBalancer", new(false)
		s.Ports = []corev1.ServicePort{{Name: "a", Port: 1}, {Name: "b", Port: 2, NodePort: 30006}}
	})).Spec
	if bare.Ports[0].NodePort != 0 || bare.Ports[1].NodePort != 30006 || bare.HealthCheckNodePort != 0 {
		t.Errorf("the balancer without node ports is %+v", bare)
	}
	local := registrytest.Create(w, "default", registrytest.Service("local", func(s *corev1.ServiceSpec) { s.Type, s.ExternalTrafficPolicy = "LoadBalancer", "Local" })).Spec
	if local.HealthCheckNodePort == 0 || local.HealthCheckNodePort == local.Ports[0].NodePort || !*local.AllocateLoadBalancerNodePorts {
		t.Errorf("the local balancer is %+v", local)
	}
	if _, err := registrytest.Update(w, "default", "local", "", func(s *corev1.Service) { s.Spec.HealthCheckNodePort = 30007 }); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.healthCheckNodePort: Forbidden: field is immutable") {
		t.Errorf("another port for health checks: %v", err)
	}
	same, err := registrytest.Update(w, "default", "local", "", func(s *corev1.Service) {
		s.Spec.HealthCheckNodePort, s.Spec.Ports[0].NodePort = 0, 0
	})
	if err != nil || same.Spec.HealthCheckNodePort != local.HealthCheckNodePort || same.Spec.Ports[0].NodePort != local.Ports[0].NodePort {
		t.Errorf("the same manifest again: %v, %+v", err, same)
	}
	if _, err := registrytest.Update(w, "default", "local", "status", func(s *corev1.Service) {
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
	}); err != nil {
		t.Fatal(err)
	}
	if got := registrytest.Get[*corev1.Service](w, "default", "local").Status.LoadBalancer.Ingress[0]; *got.IPMode != corev1.LoadBalancerIPModeVIP {
		t.Errorf("the load balancer's address is %+v", got)
	}
	// A dry run reports what would be refused, and allocates nothing.
	before, err := w.Ports().Used(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		nodePort int32
		want     string
	}{"taken": {30005, "provided port is already allocated"}, "foreign": {80, "provided port is not in the valid range. The range of valid ports is 30000-30099"}, "free": {30008, ""}, "any": {0, ""}} {
		s := registrytest.Service("dry", func(s *corev1.ServiceSpec) { s.Type, s.Ports[0].NodePort = "NodePort", tc.nodePort })
		dry, err := registrytest.Of[*corev1.Service](w).Create(t.Context(), "default", s, metav1.CreateOptions{DryRun: []string{"All"}})
		switch {
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: got %v, want %s", name, err, tc.want)
		case tc.want == "" && (err != nil || dry.(*corev1.Service).Spec.Ports[0].NodePort == 0 || slices.Contains(before, dry.(*corev1.Service).Spec.Ports[0].NodePort)):
			t.Errorf("%s: %v, %+v", name, err, dry)
		}
	}
	if _, err := registrytest.Of[*corev1.Service](w).Create(t.Context(), "default", registrytest.Service("hc", func(s *corev1.ServiceSpec) {
		s.Type, s.ExternalTrafficPolicy, s.HealthCheckNodePort = "LoadBalancer", "Local", 30005
	}), metav1.CreateOptions{}); !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "failed to allocate requested HealthCheck NodePort 30005: provided port is already allocated") {
		t.Errorf("a taken port for health checks: %v", err)
	}
	after, err := w.Ports().Used(t.Context())
	if err != nil || !slices.Equal(before, after) {
		t.Errorf("the ports in use were %v, now %v: %v", before, after, err)
	}
	plain, err := registrytest.Update(w, "default", "local", "", func(s *corev1.Service) { s.Spec.Type = "ClusterIP" })
	if err != nil || plain.Spec.HealthCheckNodePort != 0 || plain.Spec.Ports[0].NodePort != 0 || plain.Spec.ExternalTrafficPolicy != "" ||
		plain.Spec.AllocateLoadBalancerNodePorts != nil || len(plain.Status.LoadBalancer.Ingress) > 0 {
		t.Errorf("becoming plain: %v, %+v", err, plain)
	}
	for _, name := range []string{"dns", "chosen", "bare", "local"} {
		if _, _, err := registrytest.Of[*corev1.Service](w).Delete(t.Context(), "default", name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if used, err := w.Ports().Used(t.Context()); err != nil || len(used) > 0 {
		t.Errorf("when all are gone ports %v are recorded: %v", used, err)
	}
}
