package registrytest

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/allocate"
)

// DualStack configures a cluster with both address families and 100 node ports.
func DualStack(c *Config) {
	c.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.7.0.0/24"), netip.MustParsePrefix("fd00:7::/112")}
	c.NodePorts = allocate.PortRange{First: 30000, Last: 30099}
}

// Pod returns a new pod with the label app=web and one container.
func Pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx:1.14.2"}}},
	}
}

// Service returns a new service with port 80 and the changes.
func Service(name string, change ...func(*corev1.ServiceSpec)) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	for _, c := range change {
		c(&s.Spec)
	}
	return s
}

// RunningPod creates a pod labelled app=web that runs on a node, ready or not.
func RunningPod(w *World, name string, ready corev1.ConditionStatus) *corev1.Pod {
	w.T.Helper()
	pod := Pod(name)
	pod.Labels = map[string]string{"app": "web"}
	pod.Spec.NodeName = "n1"
	Create(w, "default", pod)
	return SetStatus(w, name, func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	})
}

// SetStatus changes the status of an object in the namespace default.
func SetStatus[T scheme.Object](w *World, name string, change func(T)) T {
	w.T.Helper()
	updated, err := Update(w, "default", name, "status", change)
	if err != nil {
		w.T.Fatal(err)
	}
	return updated
}

// CreateBudget creates a budget for the pods app=web with this status.
func CreateBudget(w *World, name string, status policyv1.PodDisruptionBudgetStatus, change ...func(*policyv1.PodDisruptionBudgetSpec)) {
	w.T.Helper()
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name}}
	budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	for _, c := range change {
		c(&budget.Spec)
	}
	Create(w, "default", budget)
	SetStatus(w, name, func(b *policyv1.PodDisruptionBudget) { b.Status = status })
}

// Addresses returns the addresses that services hold according to etcd, sorted.
func (w *World) Addresses() []string {
	w.T.Helper()
	var all []string
	for key := range w.Etcd.Values(w.T, "/registry/ipaddresses/") {
		all = append(all, strings.TrimPrefix(key, "/registry/ipaddresses/"))
	}
	slices.Sort(all)
	return all
}

// InRange checks that a range has the addresses.
func InRange(t *testing.T, prefix string, addresses ...string) {
	t.Helper()
	for _, address := range addresses {
		if addr, err := netip.ParseAddr(address); err != nil || !netip.MustParsePrefix(prefix).Contains(addr) {
			t.Errorf("%q is not in %s", address, prefix)
		}
	}
}
