package scheduling

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

// Kubernetes' texts about the keys and the values of labels.
const (
	badKey = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character " +
		"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
	noKey    = "name part must be non-empty"
	badValue = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an " +
		"alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
	effects = `: supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"`
)

// TestTolerations checks each part of a toleration. Kubernetes reports an invalid value at the operator.
func TestTolerations(t *testing.T) {
	for _, tc := range []struct {
		name       string
		toleration corev1.Toleration
		want       []string
	}{
		{"everything", corev1.Toleration{Operator: corev1.TolerationOpExists}, nil},
		{"a value, for some time", corev1.Toleration{Key: "example.com/a", Value: "b", Effect: "NoExecute", TolerationSeconds: new(int64(-1))}, nil},
		{"without a key all values match", corev1.Toleration{Operator: corev1.TolerationOpEqual, Value: "b"}, []string{
			"at[0].operator: Invalid value: \"Equal\": operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
		}},
		{"a bad key", corev1.Toleration{Key: "a b", Operator: corev1.TolerationOpExists}, []string{`at[0].key: Invalid value: "a b": ` + badKey}},
		{"a bad value", corev1.Toleration{Key: "a", Value: "b c"}, []string{`at[0].operator: Invalid value: "b c": ` + badValue}},
		{"two errors in a value are one", corev1.Toleration{Key: "a", Operator: corev1.TolerationOpEqual, Value: strings.Repeat("-", 64)}, []string{
			`at[0].operator: Invalid value: "` + strings.Repeat("-", 64) + `": must be no more than 63 bytes;` + badValue,
		}},
		{"a value that may be any", corev1.Toleration{Key: "a", Operator: corev1.TolerationOpExists, Value: "b"}, []string{
			"at[0].operator: Invalid value: \"b\": value must be empty when `operator` is 'Exists'",
		}},
		{"seconds of another effect", corev1.Toleration{Key: "a", Effect: corev1.TaintEffectNoSchedule, TolerationSeconds: new(int64(1))}, []string{
			"at[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is set",
		}},
		{"seconds of every effect", corev1.Toleration{Key: "a", TolerationSeconds: new(int64(1))}, []string{
			"at[0].effect: Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` is set",
		}},
		{"an unknown effect", corev1.Toleration{Key: "a", Effect: "noexecute"}, []string{`at[0].effect: Unsupported value: "noexecute"` + effects}},
		{"an unknown operator", corev1.Toleration{Key: "a", Operator: "In"}, []string{
			`at[0].operator: Unsupported value: "In": supported values: "Equal", "Exists"`,
		}},
		{"a comparison, which is not enabled", corev1.Toleration{Key: "a", Operator: corev1.TolerationOpGt, Value: "1"}, []string{
			`at[0].operator: Unsupported value: "Gt": supported values: "Equal", "Exists", "Lt", "Gt"`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			errortest.Exactly(t, Tolerations([]corev1.Toleration{tc.toleration}, field.NewPath("at")), tc.want...)
		})
	}
}

func TestTaints(t *testing.T) {
	for _, tc := range []struct {
		name   string
		taints []corev1.Taint
		want   []string
	}{
		{"one key with two effects, the same effect of two keys", []corev1.Taint{
			{Key: "a", Effect: "NoSchedule"}, {Key: "a", Effect: "NoExecute"}, {Key: "b", Effect: "NoExecute", Value: "c"},
		}, nil},
		{"nothing", []corev1.Taint{{}}, []string{
			`at[0].key: Invalid value: "": ` + noKey, `at[0].key: Invalid value: "": ` + badKey, "at[0].effect: Required value",
		}},
		{"bad values", []corev1.Taint{{Key: "a b", Value: "c d", Effect: "Never"}}, []string{
			`at[0].key: Invalid value: "a b": ` + badKey, `at[0].value: Invalid value: "c d": ` + badValue, `at[0].effect: Unsupported value: "Never"` + effects,
		}},
		{"two errors in a value are one", []corev1.Taint{{Key: "a", Value: strings.Repeat("-", 64), Effect: "NoSchedule"}}, []string{
			`at[0].value: Invalid value: "` + strings.Repeat("-", 64) + `": must be no more than 63 bytes;` + badValue,
		}},
		// Kubernetes shows the same fields with the names of its own type.
		{"twice, with another value", []corev1.Taint{{Key: "a", Effect: "NoSchedule", Value: "b"}, {Key: "a", Effect: "NoSchedule"}}, []string{
			`at[1]: Duplicate value: {"key":"a","effect":"NoSchedule"}: taints must be unique by key and effect pair`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			errortest.Exactly(t, Taints(tc.taints, field.NewPath("at")), tc.want...)
		})
	}
}
