package apps

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func selector() *metav1.LabelSelector { return &metav1.LabelSelector{MatchLabels: web()} }

func pods() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: web()},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "b"}}},
	}
}

// rule is a change of a valid object and the errors, in order, that it must cause.
type rule[T any] struct {
	name   string
	change func(T)
	want   []string
}

func check[T any](t *testing.T, fresh func() T, fill func(T), validate func(T) field.ErrorList, rules []rule[T]) {
	t.Helper()
	for _, tc := range rules {
		t.Run(tc.name, func(t *testing.T) {
			obj := fresh()
			tc.change(obj)
			fill(obj)
			errortest.Exactly(t, validate(obj), tc.want...)
		})
	}
}

// templates are the rules for templates of pods that run for ever.
func templates[T any](of func(T) *corev1.PodTemplateSpec, kind string) []rule[T] {
	return []rule[T]{
		{"plain", func(T) {}, nil},
		{"restart policy", func(o T) { of(o).Spec.RestartPolicy = corev1.RestartPolicyNever }, []string{`spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"`}},
		{"deadline", func(o T) { of(o).Spec.ActiveDeadlineSeconds = new(int64(5)) }, []string{"spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in " + kind + " is not Supported"}},
		{"container", func(o T) { of(o).Spec.Containers[0].Image = "" }, []string{"spec.template.spec.containers[0].image: Required value"}},
		{"other labels", func(o T) { of(o).Labels = map[string]string{"a": "b"} }, []string{"spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`"}},
	}
}

func TestDaemonSet(t *testing.T) {
	set := func() *appsv1.DaemonSet {
		return &appsv1.DaemonSet{ObjectMeta: meta(), Spec: appsv1.DaemonSetSpec{Selector: selector(), Template: pods()}}
	}
	type d = *appsv1.DaemonSet
	rolling := func(unavailable, surge intstr.IntOrString) func(d) {
		return func(d d) {
			d.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &unavailable, MaxSurge: &surge}
		}
	}
	const at = "spec.updateStrategy.rollingUpdate."
	check(t, set, defaultDaemonSet, validateDaemonSet, append(templates(func(d d) *corev1.PodTemplateSpec { return &d.Spec.Template }, "DaemonSet"), []rule[d]{
		{"no selector", func(d d) { d.Spec.Selector = nil }, []string{"spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`"}},
		{"empty selector", func(d d) { d.Spec.Selector = &metav1.LabelSelector{} }, []string{"spec.selector: Invalid value: {}: empty selector is invalid for daemonset"}},
		{"negative numbers", func(d d) { d.Spec.MinReadySeconds, d.Spec.RevisionHistoryLimit = -1, new(int32(-2)) }, []string{
			"spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0", "spec.revisionHistoryLimit: Invalid value: -2: must be greater than or equal to 0",
		}},
		{"strategy", func(d d) { d.Spec.UpdateStrategy.Type = "Odd" }, []string{`spec.updateStrategy: Unsupported value: {"type":"Odd"}: supported values: "RollingUpdate", "OnDelete"`}},
		{"both", rolling(intstr.FromInt32(1), intstr.FromString("10%")), []string{at + `maxSurge: Invalid value: "10%": may not be set when maxUnavailable is non-zero`}},
		{"neither", rolling(intstr.FromString("0%"), intstr.FromInt32(0)), []string{at + "maxUnavailable: Required value: cannot be 0 when maxSurge is 0"}},
		{"surge", rolling(intstr.FromInt32(0), intstr.FromInt32(1)), nil},
		{"too much", rolling(intstr.FromString("101%"), intstr.FromInt32(0)), []string{at + `maxUnavailable: Invalid value: "101%": must not be greater than 100%`}},
		{"too much surge", rolling(intstr.FromInt32(0), intstr.FromString("101%")), []string{at + `maxSurge: Invalid value: "101%": must not be greater than 100%`}},
		{"on delete", func(d d) { d.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType }, nil},
	}...))
	changed := set()
	defaultDaemonSet(changed)
	changed.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Exists"}}
	errortest.Exactly(t, validateDaemonSetUpdate(changed, set()), `spec.selector: Invalid value: {"matchLabels":{"app":"web"},"matchExpressions":[{"key":"app","operator":"Exists"}]}: field is immutable`)
	old := set()
	old.Status.CollisionCount = new(int32(1))
	changed.Status = appsv1.DaemonSetStatus{
		CurrentNumberScheduled: -1, NumberMisscheduled: -1, DesiredNumberScheduled: -1, NumberReady: -1, UpdatedNumberScheduled: -1,
		NumberAvailable: -1, NumberUnavailable: -1, ObservedGeneration: -1, CollisionCount: new(int32(-1)),
	}
	var want []string
	for _, name := range []string{
		"observedGeneration", "currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady", "updatedNumberScheduled",
		"numberAvailable", "numberUnavailable", "collisionCount",
	} {
		want = append(want, "status."+name+": Invalid value: -1: must be greater than or equal to 0")
	}
	errortest.Exactly(t, validateDaemonSetStatus(changed, old), append(want, "status.collisionCount: Invalid value: -1: cannot be decremented")...)
}
