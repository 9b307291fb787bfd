// Package kindtest supports the tests of kinds: samples as they are stored, and rows as kubectl
// prints them.
package kindtest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/samples"
)

// Sample returns a valid new object of a kind as it is stored.
func Sample[T scheme.Object](t *testing.T, kind *kinds.Definition) T {
	t.Helper()
	table := scheme.New()
	set, err := samples.New(table)
	if err != nil {
		t.Fatal(err)
	}
	obj := set.Of(scheme.For[T](table)).(T)
	obj.SetUID("u")
	if kind.Default != nil {
		kind.Default(obj)
	}
	kind.PrepareForCreate(obj)
	if errs := kind.Validate(obj); len(errs) > 0 {
		t.Fatalf("the sample was rejected: %v", errs.ToAggregate())
	}
	return obj
}

// Now returns the time at which Row and Cells print: noon of the first day of 2030, in UTC.
func Now() time.Time { return time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC) }

// Ago returns the time that is d before Now.
func Ago(d time.Duration) metav1.Time { return metav1.NewTime(Now().Add(-d)) }

// Row checks the names of a kind's columns and the cells of an object. The names of columns that
// only -o wide shows end in an asterisk.
func Row(t *testing.T, kind *kinds.Definition, obj scheme.Object, names []string, cells []any) {
	t.Helper()
	var got []string
	for _, column := range kind.Columns.Table([]scheme.Object{obj}, nil, columns.Options{}, Now()).ColumnDefinitions {
		if column.Priority > 0 {
			column.Name += "*"
		}
		got = append(got, column.Name)
	}
	if diff := cmp.Diff(names, got); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	Cells(t, kind, obj, cells)
}

// Cells checks the cells of an object's row.
func Cells(t *testing.T, kind *kinds.Definition, obj scheme.Object, cells []any) {
	t.Helper()
	if diff := cmp.Diff(cells, kind.Columns.Table([]scheme.Object{obj}, nil, columns.Options{}, Now()).Rows[0].Cells); diff != "" {
		t.Errorf("cells (-want +got):\n%s", diff)
	}
}

// Generations checks that the generation of an object counts changes of its spec and nothing else,
// and that an update of the status cannot change the spec. obj is a sample; changed is a copy of it
// with another spec, which an update prepares.
func Generations(t *testing.T, kind *kinds.Definition, obj, changed scheme.Object) {
	t.Helper()
	if obj.GetGeneration() != 1 {
		t.Fatalf("new object: got generation %d, want 1", obj.GetGeneration())
	}
	labelled := obj.DeepCopyObject().(scheme.Object)
	labelled.SetLabels(map[string]string{"x": "y"})
	kind.Update.Prepare(labelled, obj)
	if labelled.GetGeneration() != 1 {
		t.Errorf("with a new label: got generation %d", labelled.GetGeneration())
	}
	kind.Update.Prepare(changed, obj)
	if changed.GetGeneration() != 2 {
		t.Errorf("with another spec: got generation %d", changed.GetGeneration())
	}
	status, ok := kind.Subresources["status"]
	if !ok {
		return
	}
	restored := changed.DeepCopyObject().(scheme.Object)
	restored.SetGeneration(1)
	status.Prepare(restored, obj)
	restored.SetAnnotations(obj.GetAnnotations())
	if diff := cmp.Diff(obj, restored); diff != "" {
		t.Errorf("a status update changed the spec (-want +got):\n%s", diff)
	}
}
