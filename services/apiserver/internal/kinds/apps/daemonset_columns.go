package apps

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

func daemonSetColumns() *columns.Layout {
	spec, status := appsv1.DaemonSetSpec{}.SwaggerDoc(), appsv1.DaemonSetStatus{}.SwaggerDoc()
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(),
		columns.Number("Desired", status["desiredNumberScheduled"]),
		columns.Number("Current", status["currentNumberScheduled"]),
		columns.Number("Ready", status["numberReady"]),
		columns.Number("Up-to-date", status["updatedNumberScheduled"]),
		columns.Number("Available", status["numberAvailable"]),
		columns.Text("Node Selector", corev1.PodSpec{}.SwaggerDoc()["nodeSelector"]),
		columns.Age(),
		columns.Wide(columns.Text("Containers", columns.ContainersDescription)),
		columns.Wide(columns.Text("Images", columns.ImagesDescription)),
		columns.Wide(columns.Text("Selector", spec["selector"])),
	}, func(d *appsv1.DaemonSet, now time.Time) []any {
		containers, images := columns.Template(&d.Spec.Template)
		return []any{
			d.Name, int64(d.Status.DesiredNumberScheduled), int64(d.Status.CurrentNumberScheduled), int64(d.Status.NumberReady),
			int64(d.Status.UpdatedNumberScheduled), int64(d.Status.NumberAvailable), labels.FormatLabels(d.Spec.Template.Spec.NodeSelector),
			columns.AgeOf(d, now), containers, images, columns.Selector(d.Spec.Selector),
		}
	})
}
