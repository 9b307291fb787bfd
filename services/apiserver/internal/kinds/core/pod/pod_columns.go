package pod

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

func podColumns() *columns.Layout {
	spec, status := corev1.PodSpec{}.SwaggerDoc(), corev1.PodStatus{}.SwaggerDoc()
	layout := columns.Of([]metav1.TableColumnDefinition{
		columns.Name(),
		columns.Text("Ready", "The aggregate readiness state of this pod for accepting traffic."),
		columns.Text("Status", "The aggregate status of the containers in this pod."),
		columns.Text("Restarts", "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted."),
		columns.Age(),
		columns.Wide(columns.Text("IP", status["podIP"])),
		columns.Wide(columns.Text("Node", spec["nodeName"])),
		columns.Wide(columns.Text("Nominated Node", status["nominatedNodeName"])),
		columns.Wide(columns.Text("Readiness Gates", spec["readinessGates"])),
	}, podCells)
	layout.Conditions = rowConditions
	return layout
}

// rowConditions marks the rows of pods that have ended.
func rowConditions(obj scheme.Object) []metav1.TableRowCondition {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil
	}
	message := ""
	switch pod.Status.Phase {
	case corev1.PodSucceeded:
		message = "The pod has completed successfully."
	case corev1.PodFailed:
		message = "The pod failed."
	default:
		return nil
	}
	return []metav1.TableRowCondition{{
		Type: metav1.RowCompleted, Status: metav1.ConditionTrue, Reason: string(pod.Status.Phase), Message: message,
	}}
}
