package tainteviction

import (
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDeparture(t *testing.T) {
	since := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	added := metav1.NewTime(since.Add(-time.Minute))
	sixty, none, negative, endless := int64(60), int64(0), int64(-5), int64(math.MaxInt64)
	taint := corev1.Taint{Key: "k", Value: "v", Effect: corev1.TaintEffectNoExecute}
	timed := taint
	timed.TimeAdded = &added
	other := corev1.Taint{Key: "other", Effect: corev1.TaintEffectNoExecute}
	for name, test := range map[string]struct {
		tolerations []corev1.Toleration
		taints      []corev1.Taint
		leaves      bool
		at          time.Time
	}{
		"no taints":             {nil, nil, false, time.Time{}},
		"not tolerated":         {nil, []corev1.Taint{taint}, true, since},
		"tolerated for ever":    {[]corev1.Toleration{{Key: "k", Value: "v"}}, []corev1.Taint{taint}, false, time.Time{}},
		"all tolerated":         {[]corev1.Toleration{{Operator: corev1.TolerationOpExists}}, []corev1.Taint{taint, other}, false, time.Time{}},
		"another value":         {[]corev1.Toleration{{Key: "k", Value: "w"}}, []corev1.Taint{taint}, true, since},
		"another effect":        {[]corev1.Toleration{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoSchedule}}, []corev1.Taint{taint}, true, since},
		"for a while":           {[]corev1.Toleration{{Key: "k", Value: "v", TolerationSeconds: &sixty}}, []corev1.Taint{taint}, true, since.Add(time.Minute)},
		"since it was added":    {[]corev1.Toleration{{Key: "k", Value: "v", TolerationSeconds: &sixty}}, []corev1.Taint{timed}, true, since},
		"for no time":           {[]corev1.Toleration{{Key: "k", Value: "v", TolerationSeconds: &none}}, []corev1.Taint{taint}, true, since},
		"for less than no time": {[]corev1.Toleration{{Key: "k", Value: "v", TolerationSeconds: &negative}}, []corev1.Taint{taint}, true, since},
		"longer than time":      {[]corev1.Toleration{{Key: "k", Value: "v", TolerationSeconds: &endless}}, []corev1.Taint{taint}, true, since.Add(longest)},
		"one of two":            {[]corev1.Toleration{{Key: "k", Value: "v", TolerationSeconds: &sixty}}, []corev1.Taint{taint, other}, true, since},
		"an unknown operator":   {[]corev1.Toleration{{Key: "k", Operator: "Like", Value: "v"}}, []corev1.Taint{taint}, true, since},
		// The scheduler decides the same way: a pod must not come and go. (Validation refuses
		// both.)
		"equal without a key": {[]corev1.Toleration{{Operator: corev1.TolerationOpEqual, Value: "v"}}, []corev1.Taint{taint}, false, time.Time{}},
		"less":                {[]corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpLt, Value: "v"}}, []corev1.Taint{taint}, true, since},
	} {
		t.Run(name, func(t *testing.T) {
			leaves, at := departure(test.tolerations, test.taints, since, time.Time{})
			if leaves != test.leaves || !at.Equal(test.at) {
				t.Errorf("got leaves %v at %v, want %v at %v", leaves, at, test.leaves, test.at)
			}
		})
	}
}

// TestATolerationBeginsOnTheNode checks that a pod that comes to a node after its taint has the whole time
// that it tolerates the taint.
func TestATolerationBeginsOnTheNode(t *testing.T) {
	bound, sixty := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), int64(60)
	long := metav1.NewTime(bound.Add(-time.Hour))
	after := metav1.NewTime(bound.Add(time.Minute))
	for name, test := range map[string]struct {
		added *metav1.Time
		at    time.Time
	}{
		"the taint was there":           {&long, bound.Add(time.Minute)},
		"the taint came later":          {&after, bound.Add(2 * time.Minute)},
		"the taint was first seen then": {nil, bound.Add(time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			taint := corev1.Taint{Key: "k", Effect: corev1.TaintEffectNoExecute, TimeAdded: test.added}
			tolerations := []corev1.Toleration{{Operator: corev1.TolerationOpExists, TolerationSeconds: &sixty}}
			if leaves, at := departure(tolerations, []corev1.Taint{taint}, bound.Add(-time.Hour), bound); !leaves || !at.Equal(test.at) {
				t.Errorf("leaves %v at %v, want %v", leaves, at, test.at)
			}
		})
	}
}
