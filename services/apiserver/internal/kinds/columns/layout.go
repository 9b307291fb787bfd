package columns

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/garboard/garboard/libs/scheme"
)

// Layout holds the columns of one kind, and a function that returns the cells in the columns'
// order.
type Layout struct {
	Columns []metav1.TableColumnDefinition
	Cells   func(obj scheme.Object, now time.Time) []any
	// Order sorts the rows; nil keeps the list's order.
	Order func(a, b scheme.Object) int
	// Conditions returns the conditions of a row; nil if the kind has none.
	Conditions func(obj scheme.Object) []metav1.TableRowCondition
}

// Aged is the layout of a kind for which only name and age are shown.
func Aged() *Layout {
	return Of([]metav1.TableColumnDefinition{Name(), Age()}, func(obj scheme.Object, now time.Time) []any {
		return []any{obj.GetName(), AgeOf(obj, now)}
	})
}

// Texts that stand for a value that is missing.
const (
	None    = "<none>"
	Unknown = "<unknown>"
	Unset   = "<unset>"
)

// Of builds a layout in terms of the kind's Go type.
func Of[T scheme.Object](columns []metav1.TableColumnDefinition, cells func(obj T, now time.Time) []any) *Layout {
	return &Layout{Columns: columns, Cells: func(obj scheme.Object, now time.Time) []any {
		typed, ok := obj.(T)
		if !ok {
			return make([]any, len(columns))
		}
		return cells(typed, now)
	}}
}

// plain is the layout of a kind without columns of its own.
func plain() *Layout {
	return &Layout{
		Columns: []metav1.TableColumnDefinition{
			Name(),
			{Name: "Created At", Type: "date", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"]},
		},
		Cells: func(obj scheme.Object, _ time.Time) []any {
			return []any{obj.GetName(), obj.GetCreationTimestamp().UTC().Format(time.RFC3339)}
		},
	}
}

// Name returns the column of names.
func Name() metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]}
}

// Age returns the column of ages.
func Age() metav1.TableColumnDefinition {
	return Text("Age", metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"])
}

// Text returns a column of texts that is always shown.
func Text(name, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "string", Description: description}
}

// Number returns a column of numbers that is always shown.
func Number(name, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "integer", Description: description}
}

// Wide returns the column as one that only `-o wide` shows.
func Wide(column metav1.TableColumnDefinition) metav1.TableColumnDefinition {
	column.Priority = 1
	return column
}

// Since returns how long ago t was, in kubectl's short form.
func Since(t, now time.Time) string {
	if t.IsZero() {
		return Unknown
	}
	return duration.HumanDuration(now.Sub(t))
}

// AgeOf returns how long ago an object was created.
func AgeOf(obj metav1.Object, now time.Time) string {
	return Since(obj.GetCreationTimestamp().Time, now)
}

// OrNone returns the value, or None if it is empty.
func OrNone(value string) string {
	if value == "" {
		return None
	}
	return value
}

// Shown is how many ports, addresses or hosts a cell lists.
const Shown = 3

// Deref returns the text that p points to, or otherwise if p is nil.
func Deref[T ~string](p *T, otherwise string) string {
	if p == nil {
		return otherwise
	}
	return string(*p)
}

// Descriptions of the columns of what Template returns.
const (
	ContainersDescription = "Names of each container in the template."
	ImagesDescription     = "Images referenced by each container in the template."
)

// Template returns the names and the images of the containers of a pod template.
func Template(t *corev1.PodTemplateSpec) (names, images string) {
	var n, i []string
	for _, c := range t.Spec.Containers {
		n, i = append(n, c.Name), append(i, c.Image)
	}
	return strings.Join(n, ","), strings.Join(i, ",")
}

// Selector returns a selector in the form that kubectl prints.
func Selector(s *metav1.LabelSelector) string { return metav1.FormatLabelSelector(s) }
