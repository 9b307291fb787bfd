package registry_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcequantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/eviction"
)

func TestTheRegistryOwnsWhatItCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	createBy(w, "me", &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "q"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/configmaps": resourcequantity.MustParse("5")}},
	})
	updateBy(w, "controller", "q", "status", func(q *corev1.ResourceQuota) {
		q.Status.Hard = q.Spec.Hard
		q.Status.Used = corev1.ResourceList{"count/configmaps": resourcequantity.MustParse("0")}
	})
	// The quota does not count objects created before the watch cache has it.
	const counts = `kube-apiserver Update status {"f:status":{"f:used":{"f:count/configmaps":{}}}}`
	tries := 0
	eventually(t, "the quota to be owned by the apiserver", func() bool {
		tries++
		createBy(w, "me", newConfigMap(fmt.Sprint("counted-", tries)))
		return slices.Contains(owners(get[*corev1.ResourceQuota](w, "default", "q")), counts)
	})

	one := intstr.FromInt32(1)
	createBy(w, "me", &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "b"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	})
	updateBy(w, "controller", "b", "status", func(b *policyv1.PodDisruptionBudget) {
		b.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: b.Generation, DisruptionsAllowed: 1, CurrentHealthy: 2, DesiredHealthy: 1, ExpectedPods: 2}
	})
	createBy(w, "me", newPod("evicted"))
	updateBy(w, "kubelet", "evicted", "status", func(p *corev1.Pod) {
		p.Status.Phase, p.Status.Conditions = corev1.PodRunning, []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	})
	if err := eviction.Evict(t.Context(), w.Registry, "default", "evicted", &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "evicted"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	list := owners(get[*policyv1.PodDisruptionBudget](w, "default", "b"))
	if !slices.ContainsFunc(list, func(entry string) bool {
		return strings.HasPrefix(entry, "kube-apiserver Update status ") && strings.Contains(entry, "f:disruptionsAllowed")
	}) {
		t.Errorf("the budget is owned by %q", list)
	}
}

// TestOwnersGiveWayToSize writes an object that etcd accepts only without the record of its owners.
func TestOwnersGiveWayToSize(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	large := newConfigMap("large")
	for i := range 4000 {
		large.Data[fmt.Sprintf("%s%d", strings.Repeat("k", 245), i)] = ""
	}
	made := createBy(w, "me", large)
	if len(made.Data) != 4001 || made.ManagedFields != nil {
		t.Errorf("of the data there are %d, owned by %d", len(made.Data), len(made.ManagedFields))
	}
	createBy(w, "me", newConfigMap("grown"))
	grown := updateBy(w, "me", "grown", "", func(m *corev1.ConfigMap) { m.Data = large.Data })
	if len(grown.Data) != 4001 || grown.ManagedFields != nil {
		t.Errorf("of the data there are %d, owned by %d", len(grown.Data), len(grown.ManagedFields))
	}
}
