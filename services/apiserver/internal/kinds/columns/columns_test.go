package columns

import (
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
			table := c.layout.Table([]scheme.Object{named("b"), named("a")}, &metav1.ListMeta{ResourceVersion: "9"}, nil, now)
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

// TestIncludedObject checks how much of an object its row has.
func TestIncludedObject(t *testing.T) {
	one := []scheme.Object{named("one")}
	for policy, want := range map[metav1.IncludeObjectPolicy]string{
		"":                     "*v1.PartialObjectMetadata",
		metav1.IncludeMetadata: "*v1.PartialObjectMetadata",
		metav1.IncludeObject:   "*v1.ConfigMap",
	} {
		table := Aged().Table(one, nil, &metav1.TableOptions{IncludeObject: policy}, now)
		if got := reflect.TypeOf(table.Rows[0].Object.Object).String(); got != want {
			t.Errorf("%q: got a %s, want %s", policy, got, want)
		}
	}
	table := Aged().Table(one, nil, &metav1.TableOptions{IncludeObject: metav1.IncludeNone, NoHeaders: true}, now)
	if table.Rows[0].Object.Object != nil || table.ColumnDefinitions != nil || table.ResourceVersion != "7" {
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
