package patch_test

import (
	"testing"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/garboard/garboard/services/apiserver/internal/http/patch"
)

const applyType = "application/apply-patch+yaml"

func TestWanted(t *testing.T) {
	twice := "a: 1\nb: {}\na: 2\n"
	cases := map[string]struct {
		body, directive string
		want            map[string]any
		warnings        []string
		code            int32
		says            string
	}{
		"YAML":              {body: "a: 1\nb: [x, 1.5]\n", want: map[string]any{"a": int64(1), "b": []any{"x", 1.5}}},
		"JSON":              {body: `{"a":1,"b":["x",1.5]}`, want: map[string]any{"a": int64(1), "b": []any{"x", 1.5}}},
		"nothing":           {body: "", want: map[string]any{}},
		"duplicate warns":   {body: twice, want: map[string]any{"a": int64(2), "b": map[string]any{}}, warnings: []string{"yaml: unmarshal errors:\n  line 3: key \"a\" already set in map"}},
		"duplicate in JSON": {body: `{"a":1,"a":2}`, want: map[string]any{"a": int64(2)}, warnings: []string{"yaml: unmarshal errors:\n  line 1: key \"a\" already set in map"}},
		"duplicate ignored": {body: twice, directive: "Ignore", want: map[string]any{"a": int64(2), "b": map[string]any{}}},
		"duplicate, strict": {body: twice, directive: "Strict", code: 400, says: `error strict decoding patch: `},
		"not a map":         {body: "[1]", code: 400, says: "error decoding patch: "},
		"malformed YAML":    {body: "\ta: {", code: 400, says: "error encoding patch: "},
		"malformed JSON":    {body: `{"a":`, code: 400, says: "patch: "},
	}
	patcher := newPatcher(t)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			kind, err := patch.TypeOf(patched(), applyType+"; charset=utf-8")
			if err != nil {
				t.Fatal(err)
			}
			parsed, err := patcher.Parse(kind, []byte(c.body), c.directive)
			if err != nil {
				check(t, err, c.code, c.says)
				return
			}
			warnings, err := parsed.Strict()
			if c.code != 0 || err != nil {
				check(t, err, c.code, c.says)
				return
			}
			if got := parsed.Wanted().Object; !apiequality.Semantic.DeepEqual(got, c.want) {
				t.Errorf("got %#v, want %#v", got, c.want)
			}
			if len(warnings) != len(c.warnings) || len(warnings) > 0 && warnings[0] != "error converting YAML to JSON: "+c.warnings[0] && warnings[0] != c.warnings[0] {
				t.Errorf("got warnings %q, want %q", warnings, c.warnings)
			}
		})
	}
}
