package quota

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
)

// TestScopeChanges: a pod that gets a deadline, or loses it, is charged to the quota of its new scope.
func TestScopeChanges(t *testing.T) {
	deadline := func(seconds int64) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = &seconds }
	}
	exceeded := `pods "p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0`
	for _, c := range []struct {
		name        string
		scope       corev1.ResourceQuotaScope
		old, now    *corev1.Pod
		subresource string
		want        string
	}{
		{"into Terminating", corev1.ResourceQuotaScopeTerminating, admissiontest.Pod(), admissiontest.Pod(deadline(5)), "", exceeded},
		{"out of NotTerminating", corev1.ResourceQuotaScopeNotTerminating, admissiontest.Pod(), admissiontest.Pod(deadline(5)), "", ""},
		{"into NotTerminating", corev1.ResourceQuotaScopeNotTerminating, admissiontest.Pod(deadline(5)), admissiontest.Pod(), "", exceeded},
		{"within Terminating", corev1.ResourceQuotaScopeTerminating, admissiontest.Pod(deadline(5)), admissiontest.Pod(deadline(4)), "", ""},
		{"without a change", corev1.ResourceQuotaScopeNotTerminating, admissiontest.Pod(), admissiontest.Pod(), "", ""},
		{"in a write of the status", corev1.ResourceQuotaScopeTerminating, admissiontest.Pod(), admissiontest.Pod(deadline(5)), "status", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := admissiontest.New()
			q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "q"}}
			q.Spec.Scopes = []corev1.ResourceQuotaScope{c.scope}
			q.Status.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
			q.Status.Used = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
			w.Put(q)
			p, err := Plugin(w.Objects(), nil)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if _, err := w.Admit(t, &admission.Request{Verb: admission.Update, Subresource: c.subresource, Object: c.now, Old: c.old}, p); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
