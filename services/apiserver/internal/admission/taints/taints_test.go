package taints

import (
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// try admits a request by the plugin alone, and returns the warnings.
func try(t *testing.T, w *admissiontest.World, req *admission.Request) ([]string, error) {
	t.Helper()
	return w.Admit(t, req, DefaultTolerationSeconds(), NodesByCondition())
}

func TestDefaultTolerationSeconds(t *testing.T) {
	p := admissiontest.Pod(func(p *corev1.Pod) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}}
	})
	if _, err := try(t, admissiontest.New(), &admission.Request{Object: p}); err != nil {
		t.Fatal(err)
	}
	added := p.Spec.Tolerations[1]
	if len(p.Spec.Tolerations) != 2 || p.Spec.Tolerations[0].TolerationSeconds != nil || added.Key != corev1.TaintNodeUnreachable || *added.TolerationSeconds != 300 {
		t.Errorf("got tolerations %+v", p.Spec.Tolerations)
	}
	all := admissiontest.Pod(func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} })
	if _, err := try(t, admissiontest.New(), &admission.Request{Object: all}); err != nil || len(all.Spec.Tolerations) != 1 {
		t.Errorf("got %v, tolerations %+v", err, all.Spec.Tolerations)
	}
}

func TestTaintNodesByCondition(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	for range 2 { // An existing taint is not added again.
		if _, err := try(t, admissiontest.New(), &admission.Request{Object: node}); err != nil {
			t.Fatal(err)
		}
		if len(node.Spec.Taints) != 1 || node.Spec.Taints[0].Key != corev1.TaintNodeNotReady || node.Spec.Taints[0].Effect != corev1.TaintEffectNoSchedule {
			t.Errorf("got taints %+v", node.Spec.Taints)
		}
	}
	node.Spec.Taints = nil
	if _, err := try(t, admissiontest.New(), &admission.Request{Verb: admission.Update, Object: node, Old: node}); err != nil || node.Spec.Taints != nil {
		t.Errorf("an update: got %v, taints %+v", err, node.Spec.Taints)
	}
}
