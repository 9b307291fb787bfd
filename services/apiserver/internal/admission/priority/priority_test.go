package priority

import (
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// try admits a request by the plugin alone, and returns the warnings.
func try(t *testing.T, w *admissiontest.World, req *admission.Request) ([]string, error) {
	t.Helper()
	return w.Admit(t, req, Plugin(w.Objects()))
}

func class(name string, value int32, isDefault bool, policy corev1.PreemptionPolicy) *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, GlobalDefault: isDefault, PreemptionPolicy: &policy}
}

func TestPriorityOfAPod(t *testing.T) {
	high := class("high", 1000, false, corev1.PreemptNever)
	usual, older := class("usual", 10, true, corev1.PreemptLowerPriority), class("older", 20, true, corev1.PreemptLowerPriority)
	named := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.PriorityClassName = name }
	}
	valued := func(value int32) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.Priority = &value } }
	never := func(p *corev1.Pod) { policy := corev1.PreemptNever; p.Spec.PreemptionPolicy = &policy }
	for _, tc := range []struct {
		name    string
		classes []*schedulingv1.PriorityClass
		pod     *corev1.Pod
		class   string
		value   int32
		policy  corev1.PreemptionPolicy
		want    string
	}{
		{"no class", nil, admissiontest.Pod(), "", 0, corev1.PreemptLowerPriority, ""},
		{"the default class", []*schedulingv1.PriorityClass{high, usual}, admissiontest.Pod(), "usual", 10, corev1.PreemptLowerPriority, ""},
		{"the lowest of two defaults", []*schedulingv1.PriorityClass{older, usual}, admissiontest.Pod(), "usual", 10, corev1.PreemptLowerPriority, ""},
		{"a named class", []*schedulingv1.PriorityClass{high, usual}, admissiontest.Pod(named("high")), "high", 1000, corev1.PreemptNever, ""},
		{"a missing class", nil, admissiontest.Pod(named("high")), "", 0, "", `pods "p" is forbidden: no PriorityClass with name high was found`},
		{"a system class that is not stored", nil, admissiontest.Pod(named("system-node-critical")), "system-node-critical", 2000001000, corev1.PreemptLowerPriority, ""},
		{"a system class", nil, admissiontest.Pod(named("system-cluster-critical")), "system-cluster-critical", 2000000000, corev1.PreemptLowerPriority, ""},
		{"the same value", []*schedulingv1.PriorityClass{high}, admissiontest.Pod(named("high"), valued(1000), never), "high", 1000, corev1.PreemptNever, ""},
		{"another value", []*schedulingv1.PriorityClass{high}, admissiontest.Pod(named("high"), valued(5)), "", 0, "", "the integer value of priority (5) must not be provided in pod spec; priority admission controller computed 1000 from the given PriorityClass name"},
		{"a value without a class", nil, admissiontest.Pod(valued(5)), "", 0, "", "the integer value of priority (5) must not be provided in pod spec; priority admission controller computed 0 from the given PriorityClass name"},
		{"another policy", nil, admissiontest.Pod(never), "", 0, "", "the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority admission controller computed PreemptLowerPriority from the given PriorityClass name"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := admissiontest.New()
			for _, c := range tc.classes {
				w.Put(c)
			}
			_, err := try(t, w, &admission.Request{Object: tc.pod})
			admissiontest.Refused(t, err, tc.want)
			if tc.want == "" && (tc.pod.Spec.PriorityClassName != tc.class || *tc.pod.Spec.Priority != tc.value || *tc.pod.Spec.PreemptionPolicy != tc.policy) {
				t.Errorf("got %s %d %s", tc.pod.Spec.PriorityClassName, *tc.pod.Spec.Priority, *tc.pod.Spec.PreemptionPolicy)
			}
		})
	}
	t.Run("update", func(t *testing.T) {
		was, is := admissiontest.Pod(valued(7), never), admissiontest.Pod()
		if _, err := try(t, admissiontest.New(), &admission.Request{Verb: admission.Update, Object: is, Old: was}); err != nil || *is.Spec.Priority != 7 || *is.Spec.PreemptionPolicy != corev1.PreemptNever {
			t.Errorf("got %v, %+v", err, is.Spec)
		}
	})
}

func TestOnePriorityClassIsDefault(t *testing.T) {
	usual := class("usual", 10, true, corev1.PreemptLowerPriority)
	for _, tc := range []struct {
		name string
		req  *admission.Request
		want string
	}{
		{"a second default", &admission.Request{Object: class("other", 1, true, "")}, `priorityclasses.scheduling.k8s.io "other" is forbidden: PriorityClass usual is already marked as default. Only one default can exist`},
		{"an update to a second default", &admission.Request{Verb: admission.Update, Object: class("other", 1, true, ""), Old: class("other", 1, false, "")}, "PriorityClass usual is already marked as default. Only one default can exist"},
		{"an update of the default", &admission.Request{Verb: admission.Update, Object: usual, Old: usual}, ""},
		{"not a default", &admission.Request{Object: class("other", 1, false, "")}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := try(t, admissiontest.New(usual), tc.req)
			admissiontest.Refused(t, err, tc.want)
		})
	}
}
