package apps

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// replicas returns the columns of workloads with a number of pods, with the descriptions of their
// type.
func replicas(spec, status map[string]string) []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		columns.Name(),
		columns.Number("Desired", spec["replicas"]),
		columns.Number("Current", status["replicas"]),
		columns.Number("Ready", status["readyReplicas"]),
		columns.Age(),
		columns.Wide(columns.Text("Containers", columns.ContainersDescription)),
		columns.Wide(columns.Text("Images", columns.ImagesDescription)),
		columns.Wide(columns.Text("Selector", spec["selector"])),
	}
}

// wanted returns a number of replicas, which defaults to 1.
func wanted(replicas *int32) int32 {
	if replicas == nil {
		return 1
	}
	return *replicas
}
