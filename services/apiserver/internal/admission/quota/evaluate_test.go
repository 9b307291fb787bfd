package quota

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// amounts parses "cpu", "1", "memory", "2Gi", ...
func amounts(list ...string) corev1.ResourceList {
	r := corev1.ResourceList{}
	for i := 0; i < len(list); i += 2 {
		r[corev1.ResourceName(list[i])] = resource.MustParse(list[i+1])
	}
	return r
}

func newQuota(hard, used corev1.ResourceList) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "q"},
		Status:     corev1.ResourceQuotaStatus{Hard: hard, Used: used},
	}
}

func newPod(requests, limits corev1.ResourceList) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "c1", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits},
		}}},
	}
}

func newService(sort corev1.ServiceType, ports int) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}, Spec: corev1.ServiceSpec{Type: sort, Ports: make([]corev1.ServicePort, ports)}}
}

func TestWhatAQuotaSays(t *testing.T) {
	table := scheme.New()
	item := func(obj scheme.Object) Item { return Item{Kind: table.KindOf(obj), Object: obj} }
	update := func(is, was scheme.Object) Item { return Item{Kind: table.KindOf(is), Object: is, Old: was} }
	two := newPod(amounts("cpu", "1"), nil)
	two.Spec.Containers = append(two.Spec.Containers, corev1.Container{Name: "c2"})
	best := newQuota(amounts("pods", "1"), amounts("pods", "1"))
	best.Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}
	for _, tc := range []struct {
		name  string
		quota *corev1.ResourceQuota
		item  Item
		added corev1.ResourceList
		want  string
	}{
		{"fits", newQuota(amounts("pods", "3"), amounts("pods", "2")), item(newPod(nil, nil)), amounts("pods", "1"), ""},
		{"full", newQuota(amounts("pods", "3"), amounts("pods", "3")), item(newPod(nil, nil)), nil, "exceeded quota: q, requested: pods=1, used: pods=3, limited: pods=3"},
		{"names only exceeded resources", newQuota(amounts("pods", "3", "requests.cpu", "2", "limits.cpu", "1"), amounts("pods", "1", "requests.cpu", "1500m", "limits.cpu", "1")), item(newPod(amounts("cpu", "1"), amounts("cpu", "1"))), nil, "exceeded quota: q, requested: limits.cpu=1,requests.cpu=1, used: limits.cpu=1,requests.cpu=1500m, limited: limits.cpu=1,requests.cpu=2"},
		{"must specify", newQuota(amounts("limits.cpu", "3"), amounts("limits.cpu", "0")), item(newPod(nil, nil)), nil, "failed quota: q: must specify limits.cpu for: c1"},
		{"must specify several", newQuota(amounts("limits.cpu", "3", "memory", "3", "pods", "1"), nil), item(two), nil, "failed quota: q: must specify limits.cpu for: c1,c2; memory for: c1,c2"},
		{"need not specify storage", newQuota(amounts("requests.ephemeral-storage", "3"), amounts("requests.ephemeral-storage", "0")), item(newPod(nil, nil)), amounts(), ""},
		{"not counted yet", newQuota(amounts("pods", "3", "configmaps", "1"), nil), item(newPod(nil, nil)), nil, "status unknown for quota: q, resources: pods"},
		{"out of scope", best, item(newPod(amounts("cpu", "1"), nil)), nil, ""},
		{"in scope", best, item(newPod(nil, nil)), nil, "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"},
		{"another kind", newQuota(amounts("configmaps", "0"), amounts("configmaps", "0")), item(newPod(nil, nil)), nil, ""},
		{"by count", newQuota(amounts("count/configmaps", "1"), amounts("count/configmaps", "1")), item(&corev1.ConfigMap{}), nil, "exceeded quota: q, requested: count/configmaps=1, used: count/configmaps=1, limited: count/configmaps=1"},
		{"negative", newQuota(amounts("requests.memory", "1"), amounts("requests.memory", "0")), item(newPod(amounts("memory", "-1"), nil)), nil, "quota usage is negative for resource(s): memory,requests.memory"},
		{"an update that adds", newQuota(amounts("services", "1", "services.nodeports", "5"), amounts("services", "1", "services.nodeports", "3")), update(newService(corev1.ServiceTypeNodePort, 3), newService(corev1.ServiceTypeNodePort, 1)), amounts("services.nodeports", "2"), ""},
		{"an update that adds too much", newQuota(amounts("services.nodeports", "4"), amounts("services.nodeports", "3")), update(newService(corev1.ServiceTypeNodePort, 3), newService(corev1.ServiceTypeClusterIP, 1)), nil, "exceeded quota: q, requested: services.nodeports=3, used: services.nodeports=3, limited: services.nodeports=4"},
		{"an update in an exceeded quota", newQuota(amounts("services", "0"), amounts("services", "1")), update(newService("", 3), newService("", 1)), amounts(), ""},
		{"an update that reduces", newQuota(amounts("services.nodeports", "5"), amounts("services.nodeports", "3")), update(newService("", 3), newService(corev1.ServiceTypeNodePort, 3)), amounts(), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			added, err := Evaluate(tc.quota, tc.item)
			if tc.want != "" {
				if _, ok := err.(*Refusal); !ok || err.Error() != tc.want { //nolint:errorlint // It is never wrapped.
					t.Errorf("got  %v\nwant %s", err, tc.want)
				}
				return
			}
			if diff := cmp.Diff(tc.added, added); err != nil || diff != "" {
				t.Errorf("got %v (-want +got):\n%s", err, diff)
			}
		})
	}
	t.Run("a status update", func(t *testing.T) {
		i := item(newPod(nil, nil))
		i.Observed = true
		added, err := Evaluate(newQuota(amounts("pods", "3"), amounts("pods", "3")), i)
		if diff := cmp.Diff(amounts("pods", "1"), added); err != nil || diff != "" {
			t.Errorf("got %v (-want +got):\n%s", err, diff)
		}
	})
}
