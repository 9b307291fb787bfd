package autoscaling

import (
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// ScaleColumns are the columns of a workload's scale subresource.
func ScaleColumns() *columns.Layout {
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Text("Name", metav1.ObjectMeta{}.SwaggerDoc()["name"]),
		columns.Number("Desired", autoscalingv1.ScaleSpec{}.SwaggerDoc()["replicas"]),
		columns.Number("Available", autoscalingv1.ScaleStatus{}.SwaggerDoc()["replicas"]),
		columns.Age(),
	}, func(s *autoscalingv1.Scale, now time.Time) []any {
		return []any{s.Name, int64(s.Spec.Replicas), int64(s.Status.Replicas), columns.AgeOf(s, now)}
	})
}
