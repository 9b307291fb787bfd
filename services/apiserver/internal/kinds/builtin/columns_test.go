package builtin

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/kindtest"
)

func TestEveryKindHasColumnsAndAsManyCells(t *testing.T) {
	for _, kind := range scheme.New().Kinds() {
		if kind.Virtual {
			continue
		}
		table := All(Config{})[kind.GroupVersionKind].Columns.Table([]scheme.Object{kind.New()}, nil, nil, kindtest.Now())
		if len(table.Rows[0].Cells) != len(table.ColumnDefinitions) {
			t.Errorf("%s has %d columns and %d cells", kind.Kind, len(table.ColumnDefinitions), len(table.Rows[0].Cells))
		}
		for _, column := range table.ColumnDefinitions {
			if column.Description == "" {
				t.Errorf("%s: column %s has no description", kind.Kind, column.Name)
			}
		}
	}
}

func TestIncludedObject(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", ResourceVersion: "7"}}
	gvk := corev1.SchemeGroupVersion.WithKind("Pod")
	for policy, want := range map[metav1.IncludeObjectPolicy]string{
		"":                     "*v1.PartialObjectMetadata",
		metav1.IncludeMetadata: "*v1.PartialObjectMetadata",
		metav1.IncludeObject:   "*v1.Pod",
	} {
		table := All(Config{})[gvk].Columns.Table([]scheme.Object{pod}, nil, &metav1.TableOptions{IncludeObject: policy}, kindtest.Now())
		if got := reflect.TypeOf(table.Rows[0].Object.Object).String(); got != want {
			t.Errorf("%q: got a %s, want %s", policy, got, want)
		}
	}
	table := All(Config{})[gvk].Columns.Table([]scheme.Object{pod}, nil, &metav1.TableOptions{IncludeObject: metav1.IncludeNone, NoHeaders: true}, kindtest.Now())
	if table.Rows[0].Object.Object != nil || table.ColumnDefinitions != nil || table.ResourceVersion != "7" {
		t.Errorf("got table %+v, want no column definitions and objects", table)
	}
}
