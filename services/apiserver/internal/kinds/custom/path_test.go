package custom

import (
	"fmt"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/kindtest"
)

// TestHostileColumns checks columns whose paths an author made to fail, to change, or to take all memory:
// each has its value or none, every time.
func TestHostileColumns(t *testing.T) {
	within := `{a: {a: {a: {a: {a: {a: {a: {a: 1}}}}}}}}`
	long := "spec: {text: " + strings.Repeat("x", 1<<16) + ", list: [1, 2], deep: " + within + "}"
	for name, c := range map[string]struct {
		path, fields string
		want         any
	}{
		"a range":              {`.spec.text}{range .spec.list[*]}{.a}{end}`, "spec: {text: a, list: [{a: 1}, {a: 2}]}", "a"},
		"a range over nothing": {`.spec.text}{range .spec.none[*]}{[0]}{end}`, "spec: {text: a}", nil},
		"an end":               {`.spec.text}{end}`, "spec: {text: a}", nil},
		"a descent":            {"..a", "spec: {a: 1}", "1"},
		"two descents":         {"..deep..a", "spec: {deep: {b: {a: 7}}}", "7"},
		"many descents":        {strings.Repeat("..a", 12), long, nil},
		"a union":              {".spec['text','list']", "spec: {text: a}", "a"},
		"many unions":          {".spec.deep" + strings.Repeat("['a','a','a','a','a','a','a','a']", 8), long, nil},
		"a filter":             {".spec.list[?(@.a==2)].b", "spec: {list: [{a: 1, b: x}, {a: 2, b: z}]}", "z"},
		"a filter of no list":  {".spec.text[?(@.a==2)].b", "spec: {text: a}", nil},
		"an index beyond":      {".spec.list[5]", "spec: {list: [1]}", nil},
		"nothing":              {".", "spec: {}", nil},
	} {
		kind := kindOfVersion(t, `additionalPrinterColumns: [{name: A, type: string, jsonPath: "`+c.path+`"}], `+anything)
		obj := gadget(t, c.fields)
		if len(kind.Columns.Columns) != 2 {
			t.Errorf("%s: the path %s is not read", name, c.path)
			continue
		}
		for i := range 2 {
			if got := kind.Columns.Cells(obj, time.Now())[1]; got != c.want {
				t.Errorf("%s: reading %d gives %.200v, want %v", name, i+1, got, c.want)
			}
		}
	}
}

// TestUnreadableColumns checks that columns end before the first one whose path cannot be read.
func TestUnreadableColumns(t *testing.T) {
	kind := kindOfVersion(t, `additionalPrinterColumns: [{name: A, type: string, jsonPath: .spec.a}, {name: B, type: string, jsonPath: ".spec["}, `+
		`{name: C, type: string, jsonPath: .spec.c}], `+anything)
	kindtest.Row(t, kind, gadget(t, "spec: {a: x, c: y}"), []string{"Name", "A"}, []any{"g", "x"})
}

// TestPanickingDefinition checks that a panic of what reads a definition does not end the process.
func TestPanickingDefinition(t *testing.T) {
	of := definitionOf(t, head+"- {name: v1, served: true, storage: true, "+anything+"}")
	of.Spec.Conversion.Strategy = apiextensionsv1.WebhookConverter
	if made, err := Definitions(of, nil); err == nil || len(made) > 0 || !strings.Contains(err.Error(), "reading gadgets.example.org: panic: ") {
		t.Errorf("got %v: %v", made, fmt.Sprint(err))
	}
}
