package core

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func TestLimitRange(t *testing.T) {
	for name, tc := range map[string]struct {
		item corev1.LimitRangeItem
		want []string
	}{
		"a container": {item: corev1.LimitRangeItem{
			Type: "Container", Min: amounts("cpu", "1"), DefaultRequest: amounts("cpu", "2"), Default: amounts("cpu", "3"), Max: amounts("cpu", "4"), MaxLimitRequestRatio: amounts("cpu", "4"),
		}},
		"all the same": {item: corev1.LimitRangeItem{
			Type: "Container", Min: amounts("cpu", "1"), DefaultRequest: amounts("cpu", "1"), Default: amounts("cpu", "1"), Max: amounts("cpu", "1"), MaxLimitRequestRatio: amounts("cpu", "1"),
		}},
		"a claim":      {item: corev1.LimitRangeItem{Type: "PersistentVolumeClaim", Max: amounts("storage", "1Gi")}},
		"another type": {item: corev1.LimitRangeItem{Type: "example.com/Rocket", Max: amounts("storage", "1Gi", "pods", "1")}},
		"no type": {
			want: []string{
				`spec.limits[0].type: Invalid value: "": name part must be non-empty`,
				`spec.limits[0].type: Invalid value: "": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
			},
		},
		"an unknown type": {item: corev1.LimitRangeItem{Type: "Rocket"}, want: []string{`spec.limits[0].type: Invalid value: "Rocket": must be a standard limit type or fully qualified`}},
		"defaults of a pod": {
			item: corev1.LimitRangeItem{Type: "Pod", Default: amounts("cpu", "1"), DefaultRequest: amounts("cpu", "1")},
			want: []string{
				"spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'",
				"spec.limits[0].defaultRequest: Forbidden: may not be specified when `type` is 'Pod'",
			},
		},
		"a claim without bounds": {
			item: corev1.LimitRangeItem{Type: "PersistentVolumeClaim", Default: amounts("storage", "1Gi")},
			want: []string{"spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but neither was provided"},
		},
		"resources not for containers": {
			item: corev1.LimitRangeItem{Type: "Container", Max: amounts("storage", "1"), Min: amounts("rocket", "1"), Default: amounts("requests.example.com/gpu", "1")},
			want: []string{
				`spec.limits[0].max[storage]: Invalid value: "storage": must be a standard resource for containers`,
				`spec.limits[0].min[rocket]: Invalid value: "rocket": must be a standard resource type or fully qualified`,
				`spec.limits[0].min[rocket]: Invalid value: "rocket": must be a standard resource for containers`,
				`spec.limits[0].default[requests.example.com/gpu]: Invalid value: "requests.example.com/gpu": doesn't follow extended resource name standard`,
			},
		},
		"min above max": {
			item: corev1.LimitRangeItem{Type: "Pod", Min: amounts("cpu", "2"), Max: amounts("cpu", "1")},
			want: []string{`spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1`},
		},
		"request below min": {
			item: corev1.LimitRangeItem{Type: "Container", Min: amounts("cpu", "2"), DefaultRequest: amounts("cpu", "1")},
			want: []string{`spec.limits[0].defaultRequest[cpu]: Invalid value: "1": min value 2 is greater than default request value 1`},
		},
		"request above max": {
			item: corev1.LimitRangeItem{Type: "Container", Max: amounts("cpu", "2"), DefaultRequest: amounts("cpu", "3")},
			want: []string{`spec.limits[0].defaultRequest[cpu]: Invalid value: "3": default request value 3 is greater than max value 2`},
		},
		"request above limit": {
			item: corev1.LimitRangeItem{Type: "Container", Default: amounts("cpu", "2"), DefaultRequest: amounts("cpu", "3")},
			want: []string{`spec.limits[0].defaultRequest[cpu]: Invalid value: "3": default request value 3 is greater than default limit value 2`},
		},
		"limit below min": {
			item: corev1.LimitRangeItem{Type: "Container", Min: amounts("cpu", "2"), Default: amounts("cpu", "1")},
			want: []string{`spec.limits[0].default[cpu]: Invalid value: "2": min value 2 is greater than default value 1`},
		},
		"limit above max": {
			item: corev1.LimitRangeItem{Type: "Container", Max: amounts("cpu", "2"), Default: amounts("cpu", "3")},
			want: []string{`spec.limits[0].default[cpu]: Invalid value: "2": default value 3 is greater than max value 2`},
		},
		"a ratio below one": {
			item: corev1.LimitRangeItem{Type: "Pod", MaxLimitRequestRatio: amounts("cpu", "800m")},
			want: []string{`spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "800m": ratio 800m is less than 1`},
		},
		"a ratio that cannot be": {
			item: corev1.LimitRangeItem{Type: "Pod", Min: amounts("cpu", "1"), Max: amounts("cpu", "2"), MaxLimitRequestRatio: amounts("cpu", "10")},
			want: []string{`spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "10": ratio 10 is greater than max/min = 2.000000`},
		},
		"a huge ratio that cannot be": {
			item: corev1.LimitRangeItem{Type: "Pod", Min: amounts("memory", "4Pi"), Max: amounts("memory", "8Pi"), MaxLimitRequestRatio: amounts("memory", "3")},
			want: []string{`spec.limits[0].maxLimitRequestRatio[memory]: Invalid value: "3": ratio 3 is greater than max/min = 2.000000`},
		},
		"a device asked for in part": {
			item: corev1.LimitRangeItem{Type: "Container", Default: amounts("example.com/gpu", "2"), DefaultRequest: amounts("example.com/gpu", "1")},
			want: []string{`spec.limits[0].defaultRequest[example.com/gpu]: Invalid value: "1": default value 2 must equal to defaultRequest value 1 in example.com/gpu`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := &corev1.LimitRange{ObjectMeta: meta(), Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{tc.item}}}
			errortest.Exactly(t, validateLimitRange(l), tc.want...)
			errortest.Exactly(t, validateLimitRangeUpdate(l, l), tc.want...)
		})
	}
	twice := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "ns"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: "Pod"}, {Type: "Pod"}}}}
	errortest.Exactly(t, validateLimitRange(twice), `spec.limits[1].type: Duplicate value: "Pod"`)
}
