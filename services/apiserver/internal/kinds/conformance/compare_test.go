package conformance

import (
	"encoding/json"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/samples"
)

func TestCompare(t *testing.T) {
	object := func(text string) json.RawMessage { return json.RawMessage(text) }
	for name, c := range map[string]struct {
		ours, theirs Answer
		want         []string
	}{
		"equal": {
			ours:   Answer{Defaulted: object(`{"a":1,"b":[]}`), Stored: object(`{"a":{"c":null}}`)},
			theirs: Answer{Defaulted: object(`{"a":1}`), Stored: object(`{"a":{}}`)},
		},
		"a default is missing": {
			ours:   Answer{Defaulted: object(`{"spec":{}}`), Stored: object(`{"spec":{}}`)},
			theirs: Answer{Defaulted: object(`{"spec":{"a":1}}`), Stored: object(`{"spec":{"a":1}}`)},
			want:   []string{`defaults spec.a: got "", want "1"`},
		},
		"an empty object is not an absent one": {
			ours:   Answer{Stored: object(`{"a":{}}`)},
			theirs: Answer{Stored: object(`{}`)},
			want:   []string{`stored a: got "{}", want ""`},
		},
		"an element of a list": {
			ours:   Answer{Stored: object(`{"a":[{"b":1},{"b":2}]}`)},
			theirs: Answer{Stored: object(`{"a":[{"b":1},{"b":3}]}`)},
			want:   []string{`stored a[1].b: got "2", want "3"`},
		},
		"errors are sets, and what is rejected is not stored": {
			ours:   Answer{Errors: []string{"a: Required: ", "b: Invalid: x"}},
			theirs: Answer{Stored: object(`{}`), Warnings: []string{"w"}, Errors: []string{"a: Required: ", "c: Invalid: y"}},
			want:   []string{`error b: got "b: Invalid: x", want ""`, `error c: got "", want "c: Invalid: y"`},
		},
		"warnings": {
			ours: Answer{}, theirs: Answer{Warnings: []string{"w"}},
			want: []string{`warning : got "", want "w"`},
		},
		"cells": {
			ours: Answer{Cells: []string{"a", "b"}, Columns: []string{"A"}}, theirs: Answer{Cells: []string{"a", "c"}, Columns: []string{"A", "B"}},
			want: []string{`column : got "A", want "A|B"`, `cell 1: got "b", want "c"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := Compare(c.ours, c.theirs)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range found {
				got = append(got, d.String())
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestErrorTexts(t *testing.T) {
	path := field.NewPath("spec")
	got := ErrorTexts(field.ErrorList{field.Required(path, "why"), field.Invalid(path.Child("a"), 1, "no"), field.Required(path, "why")})
	if want := []string{"spec.a: Invalid value: no", "spec: Required value: why"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestSamples asks about the sample of every kind: it is accepted, has columns, and replaces itself
// without an error.
func TestSamples(t *testing.T) {
	table := scheme.New()
	set, err := samples.New(table)
	if err != nil {
		t.Fatal(err)
	}
	rules := New(table)
	for _, kind := range table.Kinds() {
		if kind.Virtual {
			continue
		}
		data, err := json.Marshal(set.Of(kind))
		if err != nil {
			t.Fatal(err)
		}
		c := Case{Kind: kind.GroupVersionKind, Op: OpCreate, Object: data}
		created, err := rules.Answer(c)
		if err != nil || len(created.Errors) > 0 || len(created.Stored) == 0 {
			t.Fatalf("creating a %s: %v %v", kind.Kind, created.Errors, err)
		}
		obj := kind.New()
		if err := json.Unmarshal(created.Stored, obj); err != nil {
			t.Fatal(err)
		}
		obj.SetResourceVersion("1")
		if c.Old, err = json.Marshal(obj); err != nil {
			t.Fatal(err)
		}
		c.Object = c.Old
		ops := []string{OpUpdate}
		for _, subresource := range rules.Subresources(kind) {
			ops = append(ops, OpUpdate+"/"+subresource)
		}
		for _, op := range ops {
			c.Op = op
			if updated, err := rules.Answer(c); err != nil || len(updated.Errors) > 0 {
				t.Errorf("%s of a %s: %v %v", op, kind.Kind, updated.Errors, err)
			}
		}
		c.Op = OpPrint
		if printed, err := rules.Answer(c); err != nil || len(printed.Cells) == 0 || len(printed.Cells) != len(printed.Columns) {
			t.Errorf("printing a %s: %+v %v", kind.Kind, printed, err)
		}
	}
	if _, err := rules.Answer(Case{Op: OpCreate, Object: []byte(`{}`)}); err == nil {
		t.Error("there is an answer about an unknown kind")
	}
}
