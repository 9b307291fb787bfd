package scheduling

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// PriorityClass defines the kind PriorityClass.
func PriorityClass() *kinds.Definition {
	return kinds.Of[*schedulingv1.PriorityClass]{
		Columns:  priorityClassColumns(),
		Level:    kinds.Full,
		Default:  defaultPriorityClass,
		Create:   func(c *schedulingv1.PriorityClass) { c.Generation = 1 },
		Validate: validatePriorityClass,
		Update:   kinds.ChangeOf[*schedulingv1.PriorityClass]{Validate: validatePriorityClassUpdate},
	}.Definition()
}

// defaultPriorityClass sets the defaults of a priority class.
func defaultPriorityClass(c *schedulingv1.PriorityClass) {
	kinds.Fill(&c.PreemptionPolicy, corev1.PreemptLowerPriority)
}

func priorityClassColumns() *columns.Layout {
	doc := schedulingv1.PriorityClass{}.SwaggerDoc()
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(),
		columns.Number("Value", doc["value"]),
		{Name: "Global-Default", Type: "boolean", Description: doc["globalDefault"]},
		columns.Age(),
		columns.Text("PreemptionPolicy", doc["preemptionPolicy"]),
	}, func(c *schedulingv1.PriorityClass, now time.Time) []any {
		return []any{c.Name, int64(c.Value), c.GlobalDefault, columns.AgeOf(c, now), columns.Deref(c.PreemptionPolicy, "")}
	})
}
