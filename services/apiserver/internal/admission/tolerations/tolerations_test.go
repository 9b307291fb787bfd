package tolerations

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestMerge checks Kubernetes' rules of which toleration includes which.
func TestMerge(t *testing.T) {
	seconds := func(n int64) *int64 { return &n }
	all := corev1.Toleration{Operator: corev1.TolerationOpExists}
	a := corev1.Toleration{Key: "a", Operator: corev1.TolerationOpExists}
	equal := corev1.Toleration{Key: "a", Operator: corev1.TolerationOpEqual, Value: "1"}
	evicted := corev1.Toleration{Key: "a", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	kept := corev1.Toleration{Key: "a", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
	soon, late := evicted, evicted
	soon.TolerationSeconds, late.TolerationSeconds = seconds(5), seconds(10)
	for name, c := range map[string]struct{ first, second, want []corev1.Toleration }{
		"none":         {nil, nil, nil},
		"equal ones":   {[]corev1.Toleration{a}, []corev1.Toleration{a}, []corev1.Toleration{a}},
		"wider after":  {[]corev1.Toleration{equal}, []corev1.Toleration{a}, []corev1.Toleration{a}},
		"wider before": {[]corev1.Toleration{a}, []corev1.Toleration{equal}, []corev1.Toleration{a}},
		"all":          {[]corev1.Toleration{a, equal, late}, []corev1.Toleration{all}, []corev1.Toleration{all}},
		"any effect":   {[]corev1.Toleration{evicted}, []corev1.Toleration{a}, []corev1.Toleration{a}},
		"two effects":  {[]corev1.Toleration{kept}, []corev1.Toleration{evicted}, []corev1.Toleration{kept, evicted}},
		"for longer":   {[]corev1.Toleration{soon}, []corev1.Toleration{late}, []corev1.Toleration{late}},
		"for ever":     {[]corev1.Toleration{late}, []corev1.Toleration{evicted}, []corev1.Toleration{evicted}},
		"others": {[]corev1.Toleration{equal}, []corev1.Toleration{{Key: "b", Operator: corev1.TolerationOpExists}},
			[]corev1.Toleration{equal, {Key: "b", Operator: corev1.TolerationOpExists}}},
	} {
		if diff := cmp.Diff(Merge(c.first, c.second), c.want); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestAllowed(t *testing.T) {
	seconds := int64(5)
	any1 := corev1.Toleration{Key: "a", Operator: corev1.TolerationOpExists}
	one := corev1.Toleration{Key: "a", Operator: corev1.TolerationOpEqual, Value: "1"}
	short := corev1.Toleration{Key: "a", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds}
	long := short
	long.TolerationSeconds = nil
	other := corev1.Toleration{Key: "b", Operator: corev1.TolerationOpExists}
	type list = []corev1.Toleration
	for name, c := range map[string]struct {
		pod, list list
		want      bool
	}{
		"an empty list":       {list{other}, nil, true},
		"nothing":             {nil, list{any1}, true},
		"the same":            {list{one}, list{one}, true},
		"a wider one":         {list{one}, list{other, any1}, true},
		"a narrower one":      {list{any1}, list{one}, false},
		"one of two is not":   {list{one, other}, list{any1}, false},
		"for a shorter time":  {list{short}, list{long}, true},
		"for a longer time":   {list{long}, list{short}, false},
		"an unknown operator": {list{one}, list{{Key: "a", Operator: "Near"}}, false},
	} {
		if got := Allowed(c.pod, c.list); got != c.want {
			t.Errorf("%s: got %t, want %t", name, got, c.want)
		}
	}
}
