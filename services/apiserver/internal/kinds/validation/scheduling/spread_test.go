package scheduling

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func TestSpread(t *testing.T) {
	valid := func(changes ...func(*corev1.TopologySpreadConstraint)) corev1.TopologySpreadConstraint {
		c := corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule}
		for _, change := range changes {
			change(&c)
		}
		return c
	}
	domains := func(least int32) func(*corev1.TopologySpreadConstraint) {
		return func(c *corev1.TopologySpreadConstraint) { c.MinDomains = &least }
	}
	anyway := func(c *corev1.TopologySpreadConstraint) { c.WhenUnsatisfiable = corev1.ScheduleAnyway }
	for _, tc := range []struct {
		name        string
		constraints []corev1.TopologySpreadConstraint
		want        []string
	}{
		{"the least numbers, keys and policies, one key with both actions", []corev1.TopologySpreadConstraint{
			valid(domains(1), func(c *corev1.TopologySpreadConstraint) {
				c.NodeAffinityPolicy, c.NodeTaintsPolicy = new(corev1.NodeInclusionPolicyIgnore), new(corev1.NodeInclusionPolicyHonor)
				c.MatchLabelKeys = []string{"hash"}
				c.LabelSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
					{Key: "hash", Operator: metav1.LabelSelectorOpIn, Values: []string{"x"}},
				}}
			}), valid(anyway),
		}, nil},
		{"nothing", []corev1.TopologySpreadConstraint{{}}, []string{
			"at[0].maxSkew: Invalid value: 0: must be greater than zero", "at[0].topologyKey: Required value: can not be empty",
			`at[0].whenUnsatisfiable: Unsupported value: "": supported values: "DoNotSchedule", "ScheduleAnyway"`,
		}},
		{"the same key and action three times", []corev1.TopologySpreadConstraint{valid(), valid(domains(2)), valid()}, []string{
			`at[0].{topologyKey, whenUnsatisfiable}: Duplicate value: "{zone, DoNotSchedule}"`,
			`at[1].{topologyKey, whenUnsatisfiable}: Duplicate value: "{zone, DoNotSchedule}"`,
		}},
		{"no domains, which need not be there", []corev1.TopologySpreadConstraint{valid(domains(0), anyway)}, []string{
			"at[0].minDomains: Invalid value: 0: must be greater than zero",
			"at[0].minDomains: Invalid value: 0: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
		}},
		{"unknown policies", []corev1.TopologySpreadConstraint{valid(func(c *corev1.TopologySpreadConstraint) {
			c.NodeAffinityPolicy, c.NodeTaintsPolicy = new(corev1.NodeInclusionPolicy("honor")), new(corev1.NodeInclusionPolicy(""))
		})}, []string{
			`at[0].nodeAffinityPolicy: Unsupported value: "honor": supported values: "Honor", "Ignore"`,
			`at[0].nodeTaintsPolicy: Unsupported value: "": supported values: "Honor", "Ignore"`,
		}},
		{"a bad selector, a bad key", []corev1.TopologySpreadConstraint{valid(func(c *corev1.TopologySpreadConstraint) {
			c.MatchLabelKeys, c.LabelSelector = []string{"a b"}, &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b c"}}
		})}, []string{
			`at[0].matchLabelKeys[0]: Invalid value: "a b": ` + badKey, `at[0].labelSelector.matchLabels: Invalid value: "b c": ` + badValue,
		}},
		{"keys of the selector, which Kubernetes reports at their constraint", []corev1.TopologySpreadConstraint{valid(func(c *corev1.TopologySpreadConstraint) {
			in := func(key string) metav1.LabelSelectorRequirement {
				return metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{"x"}}
			}
			c.MatchLabelKeys = []string{"app", "hash", "once"}
			c.LabelSelector = &metav1.LabelSelector{
				MatchLabels:      map[string]string{"hash": "x"},
				MatchExpressions: []metav1.LabelSelectorRequirement{in("app"), in("hash"), in("once"), in("app")},
			}
		})}, []string{
			`at[0][1]: Invalid value: "hash": exists in both matchLabelKeys and labelSelector`,
			`at[0][0]: Invalid value: "app": exists in both matchLabelKeys and labelSelector`,
		}},
		{"keys without a selector", []corev1.TopologySpreadConstraint{valid(func(c *corev1.TopologySpreadConstraint) { c.MatchLabelKeys = []string{"a"} })}, []string{
			"at[0].matchLabelKeys: Forbidden: must not be specified when labelSelector is not set",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			errortest.Exactly(t, Spread(tc.constraints, field.NewPath("at")), tc.want...)
		})
	}
}
