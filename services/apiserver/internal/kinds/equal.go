package kinds

import (
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

// EqualValues reports whether two values of objects without a Go type are equal, as
// apiequality.Semantic.DeepEqual does: empty and absent maps and lists of one type are equal. It does not
// need reflection, and so takes a fraction of the time.
func EqualValues(a, b any) bool {
	switch one := a.(type) {
	case map[string]any:
		other, ok := b.(map[string]any)
		return ok && EqualFields(one, other)
	case []any:
		other, ok := b.([]any)
		if !ok || len(one) != len(other) {
			return false
		}
		for i := range one {
			if !EqualValues(one[i], other[i]) {
				return false
			}
		}
		return true
	case string, bool, int64, float64, nil:
		return a == b
	}
	return apiequality.Semantic.DeepEqual(a, b)
}

// EqualFields is EqualValues for the fields of two objects, except some.
func EqualFields(a, b map[string]any, except ...string) bool {
	if len(except) == 0 && len(a) != len(b) {
		return false
	}
	return covers(a, b, except, true) && covers(b, a, except, false)
}

// covers reports whether all has each field of some, with an equal value if that counts.
func covers(some, all map[string]any, except []string, values bool) bool {
	for name, value := range some {
		if slices.Contains(except, name) {
			continue
		}
		other, ok := all[name]
		if !ok || values && !EqualValues(value, other) {
			return false
		}
	}
	return true
}
