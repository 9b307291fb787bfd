package custom

import (
	"testing"

	"k8s.io/apimachinery/pkg/fields"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/kindtest"
)

// TestColumns checks cells of each type, and of values that are of another.
func TestColumns(t *testing.T) {
	kind := kindOfVersion(t, `additionalPrinterColumns: [
  {name: Text, type: string, jsonPath: .spec.text}, {name: Whole, type: integer, jsonPath: .spec.number}, {name: Number, type: number, jsonPath: .spec.number},
  {name: Truth, type: boolean, jsonPath: .spec.truth}, {name: Since, type: date, jsonPath: .spec.since, priority: 1}, {name: All, type: string, jsonPath: '.spec.list[*].a'}], `+anything)
	for _, c := range []struct {
		fields string
		want   []any
	}{
		{"spec: {text: a, number: 7, truth: true, since: '2030-01-01T10:00:00Z', list: [{a: 1}, {a: 2}]}", []any{"g", "a", int64(7), float64(7), true, "120m", "1"}},
		{"spec: {text: {b: 1}, number: 1.5, truth: false, since: never}", []any{"g", `{"b":1}`, int64(1), 1.5, false, "<invalid>", nil}},
		{"spec: {text: 5, number: x, truth: 1, since: 3, list: []}", []any{"g", "5", nil, nil, nil, nil, nil}},
		{"spec: {text: null, since: ''}", []any{"g", "<no value>", nil, nil, nil, "<unknown>", nil}},
		{"", []any{"g", nil, nil, nil, nil, nil, nil}},
	} {
		kindtest.Row(t, kind, gadget(t, c.fields), []string{"Name", "Text", "Whole", "Number", "Truth", "Since*", "All"}, c.want)
	}
}

// TestDefaultColumns checks the columns of a version that names none.
func TestDefaultColumns(t *testing.T) {
	kindtest.Row(t, kindOfVersion(t, anything), gadget(t, "metadata: {name: g, creationTimestamp: '2030-01-01T11:59:00Z'}"), []string{"Name", "Age"}, []any{"g", "60s"})
}

// TestSelectableFields checks the fields by which lists can select.
func TestSelectableFields(t *testing.T) {
	kind := kindOfVersion(t, "selectableFields: [{jsonPath: .spec.text}, {jsonPath: .spec.number}, {jsonPath: .spec.truth}], "+anything)
	for _, c := range []struct {
		fields string
		want   fields.Set
	}{
		{"spec: {text: a, number: 7, truth: false}", fields.Set{"spec.text": "a", "spec.number": "7", "spec.truth": "false"}},
		{"spec: {text: null}", fields.Set{"spec.text": "", "spec.number": "", "spec.truth": ""}},
		{"", fields.Set{"spec.text": "", "spec.number": "", "spec.truth": ""}},
	} {
		if got := kind.Fields(gadget(t, c.fields)); got.String() != c.want.String() {
			t.Errorf("%s: got %s, want %s", c.fields, got, c.want)
		}
	}
	if len(kind.FieldLabels) != 3 || kind.FieldLabels[0] != "spec.text" || kindOfVersion(t, anything).Fields != nil {
		t.Errorf("got %q", kind.FieldLabels)
	}
}

// TestScale checks what the scale subresource reads and sets.
func TestScale(t *testing.T) {
	kind := kindOfVersion(t, parts)
	for _, c := range []struct {
		fields          string
		wanted, present int32
		selector        string
		fails           bool
	}{
		{"spec: {free: {count: 3}}\nstatus: {count: 2, s: a=b}", 3, 2, "a=b", false},
		{"", 0, 0, "", false},
		{"spec: {free: {count: x}}", 0, 0, "", true},
		{"status: {count: x}", 0, 0, "", true},
		{"status: {s: 5}", 0, 0, "", true},
		{"status: {s: '!!'}", 0, 0, "", true},
	} {
		got, err := kind.Replicas.Scale(gadget(t, c.fields))
		if (err != nil) != c.fails || err == nil && (got.Wanted != c.wanted || got.Present != c.present || got.Selector.String() != c.selector) {
			t.Errorf("%s: got %+v: %v", c.fields, got, err)
		}
	}
	obj := gadget(t, "spec: {x: 1}")
	kind.Replicas.Set(obj, 5)
	if scale, err := kind.Replicas.Scale(obj); err != nil || scale.Wanted != 5 {
		t.Errorf("after 5 were set: %+v: %v", scale, err)
	}
	if kindOfVersion(t, anything).Replicas != nil {
		t.Error("a version without the subresource has a scale")
	}
}
