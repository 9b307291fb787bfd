package admission

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
		{"no class", nil, pod(), "", 0, corev1.PreemptLowerPriority, ""},
		{"the default class", []*schedulingv1.PriorityClass{high, usual}, pod(), "usual", 10, corev1.PreemptLowerPriority, ""},
		{"the lowest of two defaults", []*schedulingv1.PriorityClass{older, usual}, pod(), "usual", 10, corev1.PreemptLowerPriority, ""},
		{"a named class", []*schedulingv1.PriorityClass{high, usual}, pod(named("high")), "high", 1000, corev1.PreemptNever, ""},
		{"a missing class", nil, pod(named("high")), "", 0, "", `pods "p" is forbidden: no PriorityClass with name high was found`},
		{"a system class that is not stored", nil, pod(named("system-node-critical")), "system-node-critical", 2000001000, corev1.PreemptLowerPriority, ""},
		{"a system class", nil, pod(named("system-cluster-critical")), "system-cluster-critical", 2000000000, corev1.PreemptLowerPriority, ""},
		{"the same value", []*schedulingv1.PriorityClass{high}, pod(named("high"), valued(1000), never), "high", 1000, corev1.PreemptNever, ""},
		{"another value", []*schedulingv1.PriorityClass{high}, pod(named("high"), valued(5)), "", 0, "", "the integer value of priority (5) must not be provided in pod spec; priority admission controller computed 1000 from the given PriorityClass name"},
		{"a value without a class", nil, pod(valued(5)), "", 0, "", "the integer value of priority (5) must not be provided in pod spec; priority admission controller computed 0 from the given PriorityClass name"},
		{"another policy", nil, pod(never), "", 0, "", "the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority admission controller computed PreemptLowerPriority from the given PriorityClass name"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld()
			for _, c := range tc.classes {
				w.put(c)
			}
			_, err := w.try(t, &Request{Object: tc.pod}, nil, "Priority")
			refused(t, err, tc.want)
			if tc.want == "" && (tc.pod.Spec.PriorityClassName != tc.class || *tc.pod.Spec.Priority != tc.value || *tc.pod.Spec.PreemptionPolicy != tc.policy) {
				t.Errorf("got %s %d %s", tc.pod.Spec.PriorityClassName, *tc.pod.Spec.Priority, *tc.pod.Spec.PreemptionPolicy)
			}
		})
	}
	t.Run("update", func(t *testing.T) {
		was, is := pod(valued(7), never), pod()
		if _, err := newWorld().try(t, &Request{Verb: Update, Object: is, Old: was}, nil, "Priority"); err != nil || *is.Spec.Priority != 7 || *is.Spec.PreemptionPolicy != corev1.PreemptNever {
			t.Errorf("got %v, %+v", err, is.Spec)
		}
	})
}

func TestOnePriorityClassIsDefault(t *testing.T) {
	usual := class("usual", 10, true, corev1.PreemptLowerPriority)
	for _, tc := range []struct {
		name string
		req  *Request
		want string
	}{
		{"a second default", &Request{Object: class("other", 1, true, "")}, `priorityclasses.scheduling.k8s.io "other" is forbidden: PriorityClass usual is already marked as default. Only one default can exist`},
		{"an update to a second default", &Request{Verb: Update, Object: class("other", 1, true, ""), Old: class("other", 1, false, "")}, "PriorityClass usual is already marked as default. Only one default can exist"},
		{"an update of the default", &Request{Verb: Update, Object: usual, Old: usual}, ""},
		{"not a default", &Request{Object: class("other", 1, false, "")}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := newWorld(usual).try(t, tc.req, nil, "Priority")
			refused(t, err, tc.want)
		})
	}
}

func TestDefaultTolerationSeconds(t *testing.T) {
	p := pod(func(p *corev1.Pod) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}}
	})
	if _, err := newWorld().try(t, &Request{Object: p}, nil, "DefaultTolerationSeconds"); err != nil {
		t.Fatal(err)
	}
	added := p.Spec.Tolerations[1]
	if len(p.Spec.Tolerations) != 2 || p.Spec.Tolerations[0].TolerationSeconds != nil || added.Key != corev1.TaintNodeUnreachable || *added.TolerationSeconds != 300 {
		t.Errorf("got tolerations %+v", p.Spec.Tolerations)
	}
	all := pod(func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} })
	if _, err := newWorld().try(t, &Request{Object: all}, nil, "DefaultTolerationSeconds"); err != nil || len(all.Spec.Tolerations) != 1 {
		t.Errorf("got %v, tolerations %+v", err, all.Spec.Tolerations)
	}
}

func TestTaintNodesByCondition(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	for range 2 { // An existing taint is not added again.
		if _, err := newWorld().try(t, &Request{Object: node}, nil, "TaintNodesByCondition"); err != nil {
			t.Fatal(err)
		}
		if len(node.Spec.Taints) != 1 || node.Spec.Taints[0].Key != corev1.TaintNodeNotReady || node.Spec.Taints[0].Effect != corev1.TaintEffectNoSchedule {
			t.Errorf("got taints %+v", node.Spec.Taints)
		}
	}
	node.Spec.Taints = nil
	if _, err := newWorld().try(t, &Request{Verb: Update, Object: node, Old: node}, nil, "TaintNodesByCondition"); err != nil || node.Spec.Taints != nil {
		t.Errorf("an update: got %v, taints %+v", err, node.Spec.Taints)
	}
}
