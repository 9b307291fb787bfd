package custom

import (
	"encoding/json"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// columnsOf returns the layout of a version's printer columns; name and age if it has none. As in Kubernetes,
// columns end before the first one whose path cannot be read, which nothing refuses.
func columnsOf(printed []apiextensionsv1.CustomResourceColumnDefinition) *columns.Layout {
	if len(printed) == 0 {
		printed = []apiextensionsv1.CustomResourceColumnDefinition{{
			Name: "Age", Type: "date", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"], JSONPath: ".metadata.creationTimestamp",
		}}
	}
	layout := &columns.Layout{Columns: []metav1.TableColumnDefinition{columns.Name()}}
	var paths []*path
	for _, column := range printed {
		path, err := newPath(column.JSONPath)
		if err != nil {
			break
		}
		description := column.Description
		if description == "" {
			description = "Custom resource definition column (in JSONPath format): " + column.JSONPath
		}
		paths = append(paths, path)
		layout.Columns = append(layout.Columns, metav1.TableColumnDefinition{
			Name: column.Name, Type: column.Type, Format: column.Format, Description: description, Priority: column.Priority,
		})
	}
	layout.Cells = func(obj scheme.Object, now time.Time) []any {
		cells := []any{obj.GetName()}
		for i, path := range paths {
			cells = append(cells, cell(path, layout.Columns[i+1].Type, content(obj).Object, now))
		}
		return cells
	}
	return layout
}

// cell returns the value at a path as a column of a type shows it; nil if there is none of that type.
func cell(path *path, kind string, of map[string]any, now time.Time) any {
	value, ok := path.find(of)
	switch {
	case !ok:
		return nil
	case kind == "string":
		if text, ok := printed(value); ok {
			return text
		}
		return nil
	}
	switch typed := value.(type) {
	case bool:
		if kind == "boolean" {
			return typed
		}
	case int64:
		return number(kind, float64(typed), typed)
	case float64:
		return number(kind, typed, int64(typed))
	case json.Number:
		whole, _ := typed.Int64()
		if all, err := typed.Float64(); err == nil {
			return number(kind, all, whole)
		}
	case string:
		if kind == "date" {
			return since(typed, now)
		}
	}
	return nil
}

func number(kind string, all float64, whole int64) any {
	switch kind {
	case "integer":
		return whole
	case "number":
		return all
	}
	return nil
}

// since returns how long ago a time was.
func since(text string, now time.Time) string {
	var at metav1.Time
	if err := at.UnmarshalQueryParameter(text); err != nil {
		return "<invalid>"
	}
	if at.IsZero() {
		return columns.Unknown
	}
	return duration.HumanDuration(now.Sub(at.Time))
}
