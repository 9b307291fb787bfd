package registry_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	resourcequantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/allocate"
	"github.com/garboard/garboard/services/apiserver/internal/registry/listing"
	"github.com/garboard/garboard/services/apiserver/internal/registry/registrytest"
)

func newService(name string, change ...func(*corev1.ServiceSpec)) *corev1.Service {
	return registrytest.Service(name, change...)
}

func TestServiceTypes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plain := create(w, "default", newService("plain"))
	spec := plain.Spec
	if !netip.MustParsePrefix("10.96.0.0/12").Contains(netip.MustParseAddr(spec.ClusterIP)) || spec.ClusterIPs[0] != spec.ClusterIP ||
		*spec.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack || spec.IPFamilies[0] != corev1.IPv4Protocol ||
		spec.Ports[0].TargetPort.IntVal != 80 || spec.Ports[0].Protocol != corev1.ProtocolTCP || spec.Ports[0].NodePort != 0 ||
		spec.SessionAffinity != corev1.ServiceAffinityNone || *spec.InternalTrafficPolicy != corev1.ServiceInternalTrafficPolicyCluster {
		t.Errorf("a plain service is %+v", spec)
	}
	headless := create(w, "default", newService("headless", func(s *corev1.ServiceSpec) { s.ClusterIP = "None" }))
	if !slices.Equal(headless.Spec.ClusterIPs, []string{"None"}) {
		t.Errorf("a headless service is %+v", headless.Spec)
	}
	external := create(w, "default", newService("external", func(s *corev1.ServiceSpec) {
		s.Type, s.ExternalName, s.Ports = corev1.ServiceTypeExternalName, "example.com", nil
	}))
	if external.Spec.ClusterIP != "" || external.Spec.IPFamilies != nil {
		t.Errorf("an external service is %+v", external.Spec)
	}
	node := create(w, "default", newService("node", func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeNodePort }))
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
			_, err := resource[*corev1.Service](w).Create(t.Context(), "default", newService("x", tc.spec), metav1.CreateOptions{})
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v\nwant %s", err, tc.want)
			}
		})
	}

	changed, err := update(w, "default", "plain", "", func(s *corev1.Service) {
		s.Spec.ClusterIP, s.Spec.ClusterIPs, s.Spec.Type = "", nil, corev1.ServiceTypeNodePort
	})
	if err != nil || changed.Spec.ClusterIP != plain.Spec.ClusterIP || changed.Spec.Ports[0].NodePort == 0 {
		t.Fatalf("becoming a node port service: %v, %+v", err, changed)
	}
	given := changed.Spec.Ports[0].NodePort
	changed, err = update(w, "default", "plain", "", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
	if err != nil || changed.Spec.Ports[0].NodePort != 0 {
		t.Fatalf("becoming plain again: %v, %+v", err, changed)
	}
	used, err := w.Ports().Used(t.Context())
	if err != nil || slices.Contains(used, given) || !slices.Contains(used, port) {
		t.Errorf("the ports in use are %v (%v), want %d and not %d", used, err, port, given)
	}
	_, err = update(w, "default", "plain", "", func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "10.96.0.77", []string{"10.96.0.77"} })
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "may not change once set") {
		t.Errorf("another address: %v", err)
	}
	if _, _, err := resource[*corev1.Service](w).Delete(t.Context(), "default", "plain", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	again := create(w, "default", newService("again", func(s *corev1.ServiceSpec) { s.ClusterIP = plain.Spec.ClusterIP }))
	if again.Spec.ClusterIP != plain.Spec.ClusterIP {
		t.Errorf("the released address was not given: %+v", again.Spec)
	}
}

func TestAddressesAreExactUnderConcurrency(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *registrytest.Config) {
		c.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.7.0.0/27")} // 30 addresses, one of them the kubernetes Service's
		c.NodePorts = allocate.PortRange{First: 30000, Last: 30019}
	})
	services := resource[*corev1.Service](w)
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			s := newService(fmt.Sprintf("s%d", i), func(s *corev1.ServiceSpec) {
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

func TestNamespaceLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	namespaces := resource[*corev1.Namespace](w)
	for _, name := range []string{"default", "kube-system", "kube-public"} {
		_, _, err := namespaces.Delete(t.Context(), "", name, metav1.DeleteOptions{})
		want := fmt.Sprintf(`namespaces "%s" is forbidden: this namespace may not be deleted`, name)
		if !apierrors.IsForbidden(err) || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	create(w, "", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "work"}})
	obj, gone, err := namespaces.Delete(t.Context(), "", "work", metav1.DeleteOptions{})
	if err != nil || gone || obj.(*corev1.Namespace).Status.Phase != corev1.NamespaceTerminating || obj.GetDeletionTimestamp() == nil {
		t.Fatalf("deleting: %v, %v, %+v", err, gone, obj)
	}
	if err := w.Feeds.Of(namespaces.Kind()).WaitFor(t.Context(), revisionOf(t, obj.GetResourceVersion())); err != nil {
		t.Fatal(err)
	}
	_, err = resource[*corev1.ConfigMap](w).Create(t.Context(), "work", newConfigMap("c"), metav1.CreateOptions{})
	want := `configmaps "c" is forbidden: unable to create new content in namespace work because it is being terminated`
	if !apierrors.IsForbidden(err) || err.Error() != want || !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		t.Errorf("creating in it: %v", err)
	}
	again, gone, err := namespaces.Delete(t.Context(), "", "work", metav1.DeleteOptions{})
	if err != nil || gone || again.GetResourceVersion() != obj.GetResourceVersion() {
		t.Errorf("deleting again: %v, %v", gone, err)
	}
	if _, err := update(w, "", "work", "", func(n *corev1.Namespace) { n.Spec.Finalizers = nil }); err != nil {
		t.Fatal(err)
	}
	if n := get[*corev1.Namespace](w, "", "work"); len(n.Spec.Finalizers) != 1 {
		t.Error("an ordinary update took the finalizer")
	}
	if _, err := update(w, "", "work", "finalize", func(n *corev1.Namespace) { n.Spec.Finalizers = nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := namespaces.Get(t.Context(), "", "work"); !apierrors.IsNotFound(err) {
		t.Errorf("after its finalizer: %v", err)
	}
}

func revisionOf(t *testing.T, version string) int64 {
	t.Helper()
	revision, err := listing.ParseVersion(version)
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

func TestNewNodesAreTaintedUntilReady(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	node := create(w, "", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{Capacity: corev1.ResourceList{"cpu": resourcequantity.MustParse("4")}}})
	if len(node.Spec.Taints) != 1 || node.Spec.Taints[0].Key != corev1.TaintNodeNotReady || node.Spec.Taints[0].Effect != corev1.TaintEffectNoSchedule {
		t.Errorf("the taints are %+v", node.Spec.Taints)
	}
	if cpu := node.Status.Allocatable["cpu"]; cpu.String() != "4" {
		t.Errorf("the allocatable resources are %v", node.Status.Allocatable)
	}
	got, err := update(w, "", "n1", "status", func(n *corev1.Node) {
		n.Spec.Taints, n.Status.NodeInfo.KubeletVersion = nil, "v1"
	})
	if err != nil || len(got.Spec.Taints) != 1 || got.Status.NodeInfo.KubeletVersion != "v1" {
		t.Errorf("the node's status: %v, %+v", err, got)
	}
}

func TestSecretsAndConfigMaps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	secret := create(w, "default", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"a": "b"}})
	if secret.Type != corev1.SecretTypeOpaque || string(secret.Data["a"]) != "b" || secret.StringData != nil {
		t.Errorf("the secret is %+v", secret)
	}
	_, err := resource[*corev1.Secret](w).Create(t.Context(), "default", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "t"}, Type: corev1.SecretTypeTLS}, metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "data[tls.crt]: Required value") {
		t.Errorf("a TLS secret without keys: %v", err)
	}
	if _, err := update(w, "default", "s", "", func(s *corev1.Secret) { s.Type = "other" }); !apierrors.IsInvalid(err) {
		t.Errorf("another type: %v", err)
	}
	create(w, "default", newConfigMap("c"))
	fixed := true
	if _, err := update(w, "default", "c", "", func(c *corev1.ConfigMap) { c.Immutable = &fixed }); err != nil {
		t.Fatal(err)
	}
	_, err = update(w, "default", "c", "", func(c *corev1.ConfigMap) { c.Data["a"] = "z" })
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "data: Forbidden: field is immutable when `immutable` is set") {
		t.Errorf("changing an immutable ConfigMap: %v", err)
	}
	big := newConfigMap("big")
	big.Data["a"] = strings.Repeat("x", 1<<20+1)
	if _, err := resource[*corev1.ConfigMap](w).Create(t.Context(), "default", big, metav1.CreateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "Too long") {
		t.Errorf("a big ConfigMap: %v", err)
	}
}
