package columns

import (
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/scheme"
)

var now = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func named(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "7", CreationTimestamp: metav1.NewTime(now.Add(-3 * time.Hour))}}
}

// TestLayouts prints objects with different layouts.
func TestLayouts(t *testing.T) {
	sorted := Aged()
	sorted.Order = func(a, b scheme.Object) int { return strings.Compare(a.GetName(), b.GetName()) }
	sorted.Conditions = func(obj scheme.Object) []metav1.TableRowCondition {
		return []metav1.TableRowCondition{{Type: metav1.RowCompleted, Reason: obj.GetName()}}
	}
	ofPods := Of([]metav1.TableColumnDefinition{Name(), Age()}, func(p *corev1.Pod, _ time.Time) []any { return []any{p.Name, ""} })
	for name, c := range map[string]struct {
		layout  *Layout
		columns []string
		cells   [][]any
	}{
		"none":            {nil, []string{"Name", "Created At"}, [][]any{{"b", "2030-01-01T09:00:00Z"}, {"a", "2030-01-01T09:00:00Z"}}},
		"aged":            {Aged(), []string{"Name", "Age"}, [][]any{{"b", "3h"}, {"a", "3h"}}},
		"sorted":          {sorted, []string{"Name", "Age"}, [][]any{{"a", "3h"}, {"b", "3h"}}},
		"of another type": {ofPods, []string{"Name", "Age"}, [][]any{{nil, nil}, {nil, nil}}},
	} {
		t.Run(name, func(t *testing.T) {
			table := c.layout.Table([]scheme.Object{named("b"), named("a")}, &metav1.ListMeta{ResourceVersion: "9"}, Options{}, now)
			var columns []string
			for _, column := range table.ColumnDefinitions {
				if columns = append(columns, column.Name); column.Description == "" {
					t.Errorf("the column %s has no description", column.Name)
				}
			}
			if !reflect.DeepEqual(columns, c.columns) || table.ResourceVersion != "9" {
				t.Errorf("got columns %q at %s, want %q at 9", columns, table.ResourceVersion, c.columns)
			}
			for i, row := range table.Rows {
				if !reflect.DeepEqual(row.Cells, c.cells[i]) {
					t.Errorf("row %d has %v, want %v", i, row.Cells, c.cells[i])
				}
				if ended := len(row.Conditions) > 0; ended != (name == "sorted") {
					t.Errorf("row %d has the conditions %v", i, row.Conditions)
				}
			}
		})
	}
}

// TestOptions checks what a table has in addition to its cells, also if its rows are in another order than the objects.
func TestOptions(t *testing.T) {
	objs := []scheme.Object{named("b"), named("a")}
	sorted := Aged()
	sorted.Order = func(a, b scheme.Object) int { return strings.Compare(a.GetName(), b.GetName()) }
	table := sorted.Table(objs, nil, Options{Include: func(i int) runtime.RawExtension {
		return runtime.RawExtension{Raw: []byte(objs[i].GetName())}
	}}, now)
	for i, want := range []string{"a", "b"} {
		if row := table.Rows[i]; row.Cells[0] != want || string(row.Object.Raw) != want {
			t.Errorf("row %d is that of %v, with the object %s, want %s", i, row.Cells[0], row.Object.Raw, want)
		}
	}
	table = Aged().Table(objs[:1], nil, Options{NoHeaders: true}, now)
	if object := table.Rows[0].Object; object.Object != nil || object.Raw != nil || table.ColumnDefinitions != nil || table.ResourceVersion != "7" {
		t.Errorf("got table %+v, want no column definitions and objects", table)
	}
}

// TestCells checks the texts that several kinds show.
func TestCells(t *testing.T) {
	policy := corev1.DNSNone
	names, images := Template(&corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "a", Image: "i:1"}, {Name: "b", Image: "j"},
	}}})
	for got, want := range map[string]string{
		AgeOf(&metav1.ObjectMeta{}, now):     Unknown,
		Since(now.Add(-90*time.Second), now): "90s",
		OrNone("x"):                          "x",
		Selector(&metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}): "a=b",
		Selector(nil):                       None,
		OrNone(""):                          None,
		Deref(&policy, "other"):             "None",
		Deref[corev1.DNSPolicy](nil, Unset): Unset,
		names + " " + images:                "a,b i:1,j",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if wide := Wide(Number("N", "d")); wide.Priority != 1 || wide.Type != "integer" {
		t.Errorf("got the column %+v", wide)
	}
}
