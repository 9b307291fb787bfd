// Package conformance compares how the apiserver treats an object with how Kubernetes treats it:
// the defaults, errors, warnings, stored form and table cells. A nested module asks Kubernetes'
// own code and saves its answers as test data, which the tests of this package replay.
package conformance

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Operations of a Case. An update of a subresource is "update/" and the subresource's name.
const (
	OpCreate = "create"
	OpUpdate = "update"
	OpPrint  = "print"
)

// Zeros is a source of randomness that has only zero bytes. With it in place of the real one, every
// UUID that is made while a case is answered is the same, on both sides and in each run.
type Zeros struct{}

// Read fills p with zeros.
func (Zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// Case is one question: what happens if a client sends an object?
type Case struct {
	// Kind is the kind of both objects.
	Kind schema.GroupVersionKind `json:"kind"`
	// Op is the operation.
	Op string `json:"op"`
	// Object is the object as the client sends it, in JSON.
	Object json.RawMessage `json:"object"`
	// Old is the stored object that an update replaces.
	Old json.RawMessage `json:"old,omitempty"`
}

// Answer is what happens to the object of a Case.
type Answer struct {
	// Defaulted is the object with its defaults.
	Defaulted json.RawMessage `json:"defaulted,omitempty"`
	// Errors are the reasons for which the object is rejected, sorted, without duplicates.
	Errors []string `json:"errors,omitempty"`
	// Warnings are sent to the client with an accepted object; sorted.
	Warnings []string `json:"warnings,omitempty"`
	// Stored is an accepted object as it is stored.
	Stored json.RawMessage `json:"stored,omitempty"`
	// Cells are the object's cells in a table, and Columns the names of its columns.
	Cells   []string `json:"cells,omitempty"`
	Columns []string `json:"columns,omitempty"`
}

// Vector is a case with Kubernetes' answer.
type Vector struct {
	Case   Case   `json:"case"`
	Answer Answer `json:"answer"`
}

// ErrorTexts returns errors in the form of Answer.Errors: field, type and the first line of the
// detail. Bad values are left out, and so are the comparisons on further lines of a detail: their
// texts depend on Go types.
func ErrorTexts(errs field.ErrorList) []string {
	texts := make([]string, 0, len(errs))
	for _, err := range errs {
		detail, _, _ := strings.Cut(err.Detail, "\n")
		texts = append(texts, fmt.Sprintf("%s: %s: %s", err.Field, err.Type, detail))
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// Sorted returns the texts in the form of Answer.Warnings.
func Sorted(texts []string) []string {
	texts = slices.Clone(texts)
	slices.Sort(texts)
	return slices.Compact(texts)
}
