package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Difference is one point in which two answers to the same case differ.
type Difference struct {
	// Aspect is what differs: "defaults", "verdict", "error", "warning", "stored", "cell" or
	// "column".
	Aspect string
	// Path is the field, if it is about one.
	Path string
	// Ours and Theirs are the texts; empty if absent.
	Ours, Theirs string
}

// String returns the difference on one line.
func (d Difference) String() string {
	return fmt.Sprintf("%s %s: got %q, want %q", d.Aspect, d.Path, d.Ours, d.Theirs)
}

// Compare returns the differences between our answer and Kubernetes'. What follows from a
// difference is not reported: an object that only one side accepts has no stored form to compare. Nor are
// the defaults of an object that both sides reject: nobody sees them.
func Compare(ours, theirs Answer) ([]Difference, error) {
	found, err := compareObjects("defaults", ours.Defaulted, theirs.Defaulted)
	if err != nil {
		return nil, err
	}
	// Kubernetes' conversion adds annotations that only its stored form must have.
	found = slices.DeleteFunc(found, func(d Difference) bool { return strings.HasPrefix(d.Path, "metadata.annotations") })
	if len(ours.Errors) > 0 && len(theirs.Errors) > 0 {
		found = nil
	}
	found = append(found, compareErrors(ours.Errors, theirs.Errors)...)
	found = append(found, compareLists("column", ours.Columns, theirs.Columns)...)
	found = append(found, compareLists("cell", ours.Cells, theirs.Cells)...)
	if len(ours.Errors) > 0 || len(theirs.Errors) > 0 {
		return found, nil
	}
	found = append(found, compareSets("warning", ours.Warnings, theirs.Warnings)...)
	if len(found) > 0 && found[0].Aspect == "defaults" {
		return found, nil
	}
	stored, err := compareObjects("stored", ours.Stored, theirs.Stored)
	return append(found, stored...), err
}

// compareErrors compares errors. The text of an error begins with its field.
func compareErrors(ours, theirs []string) []Difference {
	found := compareSets("error", ours, theirs)
	for i := range found {
		found[i].Path, _, _ = strings.Cut(found[i].Ours+found[i].Theirs, ": ")
	}
	return found
}

func compareSets(aspect string, ours, theirs []string) []Difference {
	var found []Difference
	for _, text := range ours {
		if !slices.Contains(theirs, text) {
			found = append(found, Difference{Aspect: aspect, Ours: text})
		}
	}
	for _, text := range theirs {
		if !slices.Contains(ours, text) {
			found = append(found, Difference{Aspect: aspect, Theirs: text})
		}
	}
	return found
}

func compareLists(aspect string, ours, theirs []string) []Difference {
	if slices.Equal(ours, theirs) {
		return nil
	}
	if len(ours) != len(theirs) {
		return []Difference{{Aspect: aspect, Ours: strings.Join(ours, "|"), Theirs: strings.Join(theirs, "|")}}
	}
	var found []Difference
	for i := range ours {
		if ours[i] != theirs[i] {
			found = append(found, Difference{Aspect: aspect, Path: fmt.Sprint(i), Ours: ours[i], Theirs: theirs[i]})
		}
	}
	return found
}

// compareObjects compares two objects in JSON. Null, and empty lists and strings are the same as
// absent fields.
func compareObjects(aspect string, ours, theirs json.RawMessage) ([]Difference, error) {
	if bytes.Equal(ours, theirs) {
		return nil, nil
	}
	var a, b any
	for _, side := range []struct {
		data json.RawMessage
		into *any
	}{{ours, &a}, {theirs, &b}} {
		if len(side.data) == 0 {
			continue
		}
		if err := json.Unmarshal(side.data, side.into); err != nil {
			return nil, fmt.Errorf("decoding an answer: %w", err)
		}
	}
	return compareValues(aspect, "", a, b), nil
}

func compareValues(aspect, path string, ours, theirs any) []Difference {
	if reflect.DeepEqual(ours, theirs) || absent(ours) && absent(theirs) {
		return nil
	}
	if a, ok := ours.(map[string]any); ok {
		if b, ok := theirs.(map[string]any); ok {
			var found []Difference
			keys := map[string]any{}
			maps.Copy(keys, a)
			maps.Copy(keys, b)
			for _, key := range slices.Sorted(maps.Keys(keys)) {
				found = append(found, compareValues(aspect, strings.TrimPrefix(path+"."+key, "."), a[key], b[key])...)
			}
			return found
		}
	}
	if a, ok := ours.([]any); ok {
		if b, ok := theirs.([]any); ok && len(a) == len(b) {
			var found []Difference
			for i := range a {
				found = append(found, compareValues(aspect, fmt.Sprintf("%s[%d]", path, i), a[i], b[i])...)
			}
			return found
		}
	}
	return []Difference{{Aspect: aspect, Path: path, Ours: text(ours), Theirs: text(theirs)}}
}

func absent(value any) bool {
	switch typed := value.(type) {
	case nil:
		return true
	case string:
		return typed == ""
	case []any:
		return len(typed) == 0
	}
	return false
}

func text(value any) string {
	if value == nil {
		return ""
	}
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(data)
}
