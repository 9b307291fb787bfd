package scheduling

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

// TestNodeTerms checks each kind of requirement that a term of a node selector may have.
func TestNodeTerms(t *testing.T) {
	const at = "at.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
	const label, name = at + ".matchExpressions[0]", at + ".matchFields[0]"
	labels := func(key string, operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
	}
	names := func(key string, operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
	}
	const one = name + ".values: Required value: must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
	for _, tc := range []struct {
		name string
		term corev1.NodeSelectorTerm
		want []string
	}{
		{"nothing", corev1.NodeSelectorTerm{}, nil},
		{"one of none", labels("a", corev1.NodeSelectorOpIn), []string{
			label + ".values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
		}},
		{"none of two, one of them bad", labels("a", corev1.NodeSelectorOpNotIn, "b", "c d"), []string{
			label + `.values[1]: Invalid value: "c d": ` + badValue,
		}},
		{"any value", labels("a", corev1.NodeSelectorOpExists), nil},
		{"no value, but one", labels("a", corev1.NodeSelectorOpDoesNotExist, "b"), []string{
			label + ".values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
		}},
		{"less than two values", labels("a", corev1.NodeSelectorOpLt, "1", "2"), []string{
			label + ".values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'",
		}},
		{"greater than a number", labels("a", corev1.NodeSelectorOpGt, "9223372036854775807"), nil},
		{"less than a word, which no number is", labels("a", corev1.NodeSelectorOpLt, "few"), nil},
		{"an unknown operator, no key", labels("", "in"), []string{
			label + `.operator: Invalid value: "in": not a valid selector operator`,
			label + `.key: Invalid value: "": ` + noKey, label + `.key: Invalid value: "": ` + badKey,
		}},
		{"a name", names("metadata.name", corev1.NodeSelectorOpIn, "node-1.example.com"), nil},
		{"no name", names("metadata.name", corev1.NodeSelectorOpNotIn), []string{one}},
		{"two names, one of them bad", names("metadata.name", corev1.NodeSelectorOpIn, "a", "B"), []string{
			one, name + `.values[1]: Invalid value: "B": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', ` +
				"and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is " +
				"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
		}},
		{"another field, another operator", names("metadata.uid", corev1.NodeSelectorOpExists, "B"), []string{
			name + `.operator: Invalid value: "Exists": not a valid selector operator`, name + `.key: Invalid value: "metadata.uid": not a valid field selector key`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			affinity := &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{tc.term},
			}}}
			errortest.Exactly(t, Affinity(affinity, field.NewPath("at")), tc.want...)
		})
	}
}

// TestPodTerms checks a term about other pods, which has the same rules for affinity and its opposite.
func TestPodTerms(t *testing.T) {
	const at = "at.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
	app := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	in := func(keys ...string) *metav1.LabelSelector {
		selector := app.DeepCopy()
		for _, key := range keys {
			selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
				Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{"x"},
			})
		}
		return selector
	}
	for _, tc := range []struct {
		name string
		term corev1.PodAffinityTerm
		want []string
	}{
		{"keys of labels that were added to the selector", corev1.PodAffinityTerm{
			TopologyKey: "zone", LabelSelector: in("hash", "team"), MatchLabelKeys: []string{"hash"}, MismatchLabelKeys: []string{"team", "app"},
		}, nil},
		{"no topology", corev1.PodAffinityTerm{}, []string{
			at + ".topologyKey: Required value: can not be empty",
			at + `.topologyKey: Invalid value: "": ` + noKey, at + `.topologyKey: Invalid value: "": ` + badKey,
		}},
		{"bad selectors", corev1.PodAffinityTerm{
			TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b c"}},
			NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}},
		}, []string{
			at + `.labelSelector.matchLabels: Invalid value: "b c": ` + badValue,
			at + `.namespaceSelector.matchExpressions[0].operator: Invalid value: "Is": not a valid selector operator`,
		}},
		{"bad namespace", corev1.PodAffinityTerm{TopologyKey: "zone", Namespaces: []string{"a", "b.c"}}, []string{
			at + `.namespace: Invalid value: "b.c": must not contain dots`,
		}},
		{"keys without a selector", corev1.PodAffinityTerm{TopologyKey: "zone", MatchLabelKeys: []string{"a b"}, MismatchLabelKeys: []string{"b"}}, []string{
			at + ".matchLabelKeys: Forbidden: must not be specified when labelSelector is not set",
			at + ".mismatchLabelKeys: Forbidden: must not be specified when labelSelector is not set",
		}},
		{"bad keys, one of them in both lists", corev1.PodAffinityTerm{
			TopologyKey: "zone", LabelSelector: app, MatchLabelKeys: []string{"a b", "team"}, MismatchLabelKeys: []string{"team"},
		}, []string{
			at + `.matchLabelKeys[0]: Invalid value: "a b": ` + badKey,
			at + `.matchLabelKeys[1]: Invalid value: "team": exists in both matchLabelKeys and mismatchLabelKeys`,
		}},
		// Kubernetes names the index of the key, but not the list.
		{"keys in the selector", corev1.PodAffinityTerm{
			TopologyKey: "zone", LabelSelector: in("app", "hash", "hash"), MatchLabelKeys: []string{"hash", "app"},
		}, []string{
			at + `[1]: Invalid value: "app": exists in both matchLabelKeys and labelSelector`,
			at + `[0]: Invalid value: "hash": exists in both matchLabelKeys and labelSelector`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			affinity := &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{tc.term}}}
			errortest.Exactly(t, Affinity(affinity, field.NewPath("at")), tc.want...)
		})
	}
}

// TestPreferences checks weights, and that the errors of each list have its path.
func TestPreferences(t *testing.T) {
	const required, preferred = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
	pods := func(weight int32) []corev1.WeightedPodAffinityTerm {
		return []corev1.WeightedPodAffinityTerm{{Weight: weight, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: "a b"}}}
	}
	affinity := &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{},
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
				{Weight: 1}, {Weight: 100}, {Weight: 0}, {Weight: 101, Preference: corev1.NodeSelectorTerm{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a", Operator: "Is"}},
				}},
			},
		},
		PodAffinity: &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: pods(0)},
		PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution:  []corev1.PodAffinityTerm{{TopologyKey: "a b"}},
			PreferredDuringSchedulingIgnoredDuringExecution: pods(100),
		},
	}
	want := []string{
		"at.nodeAffinity." + required + ".nodeSelectorTerms: Required value: must have at least one node selector term",
		"at.nodeAffinity." + preferred + "[2].weight: Invalid value: 0: must be in the range 1-100",
		"at.nodeAffinity." + preferred + "[3].weight: Invalid value: 101: must be in the range 1-100",
		"at.nodeAffinity." + preferred + `[3].preference.matchExpressions[0].operator: Invalid value: "Is": not a valid selector operator`,
		"at.podAffinity." + preferred + "[0].weight: Invalid value: 0: must be in the range 1-100",
		"at.podAffinity." + preferred + `[0].podAffinityTerm.topologyKey: Invalid value: "a b": ` + badKey,
		"at.podAntiAffinity." + required + `[0].topologyKey: Invalid value: "a b": ` + badKey,
		"at.podAntiAffinity." + preferred + `[0].podAffinityTerm.topologyKey: Invalid value: "a b": ` + badKey,
	}
	errortest.Exactly(t, Affinity(affinity, field.NewPath("at")), want...)
	errortest.Exactly(t, Affinity(nil, field.NewPath("at")))
}
