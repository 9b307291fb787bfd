package systemobjects_test

import (
	"net/netip"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission/priority"
	"github.com/garboard/garboard/services/apiserver/internal/registry/registrytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBootstrap(t *testing.T) {
	t.Parallel()
	w := registrytest.New(t, func(c *registrytest.Config) { c.Advertise = netip.MustParseAddrPort("192.0.2.7:6443") })
	for _, name := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
		n := registrytest.Get[*corev1.Namespace](w, "", name)
		if n.Status.Phase != corev1.NamespaceActive || n.Labels["kubernetes.io/metadata.name"] != name || !slices.Equal(n.Spec.Finalizers, []corev1.FinalizerName{"kubernetes"}) {
			t.Errorf("%s is %+v", name, n)
		}
	}
	s := registrytest.Get[*corev1.Service](w, "default", "kubernetes")
	if s.Spec.ClusterIP != "10.96.0.1" || !slices.Equal(s.Spec.ClusterIPs, []string{"10.96.0.1"}) || s.Spec.Ports[0].Port != 443 ||
		s.Spec.Ports[0].TargetPort.IntVal != 6443 || s.Labels["provider"] != "kubernetes" {
		t.Errorf("the kubernetes Service is %+v", s)
	}
	before := w.Etcd.Values(t, "/registry/")
	if err := w.Objects.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := w.Etcd.Values(t, "/registry/")
	for key := range after {
		if after[key] != before[key] {
			t.Errorf("bootstrapping again wrote %s", key)
		}
	}
	if _, ok := after["/registry/ipaddresses/10.96.0.1"]; !ok {
		t.Error("the first address is not recorded")
	}
}

func TestBootstrapAfterADeathInTheMiddle(t *testing.T) {
	t.Parallel()
	w := registrytest.New(t)
	// The address is recorded, but the Service was never written.
	w.Etcd.DeletePrefix(t, "/registry/services/specs/default/kubernetes")
	if err := w.Objects.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := registrytest.Get[*corev1.Service](w, "default", "kubernetes"); s.Spec.ClusterIP != "10.96.0.1" {
		t.Errorf("the kubernetes Service is %+v", s)
	}
}

func TestApiserversStartTogether(t *testing.T) {
	t.Parallel()
	w := registrytest.New(t)
	w.Etcd.DeletePrefix(t, "/registry/services/specs/default/kubernetes")
	w.Etcd.DeletePrefix(t, "/registry/ipaddresses/")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := w.Objects.Ensure(t.Context()); err != nil {
				t.Errorf("bootstrapping: %v", err)
			}
		})
	}
	wg.Wait()
	if n := len(w.Etcd.Values(t, "/registry/ipaddresses/")); n != 1 {
		t.Errorf("%d addresses are recorded, want 1", n)
	}
}

func TestRepairFindsLeaksAndLosses(t *testing.T) {
	t.Parallel()
	w := registrytest.New(t)
	service := registrytest.Create(w, "default", registrytest.Service("s", func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeNodePort }))
	port := service.Spec.Ports[0].NodePort
	if err := w.Ports().Release(t.Context(), port); err != nil {
		t.Fatal(err)
	}
	w.Etcd.DeletePrefix(t, "/registry/ipaddresses/"+service.Spec.ClusterIP)
	leaked, err := w.Ports().Any(t.Context())
	for err == nil && leaked == port {
		leaked, err = w.Ports().Any(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		used, err := w.Ports().Used(t.Context())
		if err != nil || !slices.Contains(used, leaked) {
			t.Fatalf("a port was freed too early: %v, %v", used, err)
		}
		if err := w.Objects.Repair(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	used, err := w.Ports().Used(t.Context())
	if err != nil || slices.Contains(used, leaked) || !slices.Contains(used, port) {
		t.Errorf("the ports in use are %v (%v), want %d and not %d", used, err, port, leaked)
	}
	if len(w.Etcd.Values(t, "/registry/ipaddresses/"+service.Spec.ClusterIP)) != 1 {
		t.Error("the service's address was not recorded again")
	}
}

// TestSystemPriorityClasses checks the classes that Kubernetes always has.
func TestSystemPriorityClasses(t *testing.T) {
	t.Parallel()
	w := registrytest.New(t)
	for name, value := range map[string]int32{"system-cluster-critical": 2000000000, "system-node-critical": 2000001000} {
		if c := registrytest.Get[*schedulingv1.PriorityClass](w, "", name); c.Value != value || c.Generation != 1 {
			t.Errorf("%s is %+v", name, c)
		}
	}
}

// TestConfigurationOfTheApiserver checks the objects with which Kubernetes' apiserver describes
// itself, which come back when they are deleted.
func TestConfigurationOfTheApiserver(t *testing.T) {
	t.Parallel()
	w := registrytest.New(t)
	if p := registrytest.Get[*flowcontrolv1.PriorityLevelConfiguration](w, "", "exempt"); p.Spec.Type != "Exempt" || p.Generation != 1 {
		t.Errorf("exempt is %+v", p)
	}
	schemas := registrytest.Of[*flowcontrolv1.FlowSchema](w)
	if _, _, err := schemas.Delete(t.Context(), "", "catch-all", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := w.Objects.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := registrytest.Get[*flowcontrolv1.FlowSchema](w, "", "catch-all"); s.Spec.MatchingPrecedence != 10000 {
		t.Errorf("catch-all is %+v", s)
	}
	_, err := registrytest.Update(w, "", "catch-all", "", func(s *flowcontrolv1.FlowSchema) { s.Spec.MatchingPrecedence = 7 })
	if !apierrors.IsInvalid(err) {
		t.Errorf("a change of a mandatory schema: %v", err)
	}
}

func TestSystemPriorityClassesExist(t *testing.T) {
	t.Parallel()
	w := registrytest.New(t)
	classes := priority.SystemClasses()
	for _, class := range classes {
		obj, err := w.Resource(w.Table.KindOf(class)).Get(t.Context(), "", class.Name)
		if err != nil {
			t.Error(err)
		} else if got := obj.(*schedulingv1.PriorityClass); got.Value != class.Value {
			t.Errorf("%s has value %d", class.Name, got.Value)
		}
	}
}
