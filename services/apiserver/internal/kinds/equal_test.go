package kinds_test

import (
	"encoding/json"
	"testing"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// TestEqualValues compares all pairs of values with what the library says of them.
func TestEqualValues(t *testing.T) {
	values := []any{nil, map[string]any(nil), []any(nil), int64(1), int64(2), float64(1), "1", int32(1), []string{"a"}, []string{"a"}}
	for _, text := range []string{
		`{}`, `[]`, `""`, `"a"`, `true`, `false`, `1.5`, `{"a": null}`, `{"a": {}}`, `{"b": {}}`, `{"a": []}`, `{"a": "b", "c": [1, {"d": "e"}]}`,
		`{"c": [1, {"d": "e"}], "a": "b"}`, `{"a": "b", "c": [1, {"d": "f"}]}`, `{"a": "b", "c": [{"d": "e"}, 1]}`, `["a", "b"]`, `["b", "a"]`, `["a"]`, `[null]`,
	} {
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		values = append(values, value)
	}
	for _, a := range values {
		for _, b := range values {
			if got, want := kinds.EqualValues(a, b), apiequality.Semantic.DeepEqual(a, b); got != want {
				t.Errorf("%T %v and %T %v: got %t, want %t", a, a, b, b, got, want)
			}
		}
	}
}

func TestEqualFields(t *testing.T) {
	fields := func(names ...string) map[string]any {
		all := map[string]any{}
		for i := 0; i < len(names); i += 2 {
			all[names[i]] = names[i+1]
		}
		return all
	}
	for name, one := range map[string]struct {
		a, b map[string]any
		want bool
	}{
		"equal":               {fields("a", "1", "x", "2"), fields("a", "1", "x", "2"), true},
		"another exception":   {fields("a", "1", "x", "2"), fields("a", "1", "x", "3"), true},
		"only one exception":  {fields("a", "1"), fields("a", "1", "x", "3"), true},
		"another value":       {fields("a", "1", "x", "2"), fields("a", "2", "x", "2"), false},
		"a field more":        {fields("a", "1", "x", "2"), fields("a", "1", "b", "2"), false},
		"a field less":        {fields("a", "1", "b", "2"), fields("a", "1", "x", "2"), false},
		"another field":       {fields("a", "1"), fields("b", "1"), false},
		"none but exceptions": {fields("x", "1"), nil, true},
	} {
		if got := kinds.EqualFields(one.a, one.b, "x"); got != one.want {
			t.Errorf("%s: got %t, want %t", name, got, one.want)
		}
	}
}
