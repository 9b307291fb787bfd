package policy

import (
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// PodDisruptionBudget defines the kind PodDisruptionBudget.
func PodDisruptionBudget() *kinds.Definition {
	specStatus := kinds.SpecStatusOf(func(b *policyv1.PodDisruptionBudget) (*policyv1.PodDisruptionBudgetSpec, *policyv1.PodDisruptionBudgetStatus) {
		return &b.Spec, &b.Status
	})
	return kinds.Of[*policyv1.PodDisruptionBudget]{
		Columns:  podDisruptionBudgetColumns(),
		Level:    kinds.Full,
		Create:   specStatus.Begin,
		Validate: validatePodDisruptionBudget,
		Update: kinds.ChangeOf[*policyv1.PodDisruptionBudget]{
			Prepare: specStatus.KeepStatus, Validate: validatePodDisruptionBudgetUpdate,
		},
		Subresources: map[string]kinds.ChangeOf[*policyv1.PodDisruptionBudget]{"status": {
			Prepare: specStatus.KeepSpec, Validate: validatePodDisruptionBudgetStatus,
		}},
		ConditionalUpdate: true,
	}.Definition()
}

func podDisruptionBudgetColumns() *columns.Layout {
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(),
		columns.Text("Min Available", "The minimum number of pods that must be available."),
		columns.Text("Max Unavailable", "The maximum number of pods that may be unavailable."),
		columns.Number("Allowed Disruptions", "Calculated number of pods that may be disrupted at this time."),
		columns.Age(),
	}, func(b *policyv1.PodDisruptionBudget, now time.Time) []any {
		return []any{
			b.Name, bound(b.Spec.MinAvailable), bound(b.Spec.MaxUnavailable), int64(b.Status.DisruptionsAllowed), columns.AgeOf(b, now),
		}
	})
}

func bound(value *intstr.IntOrString) string {
	if value == nil {
		return "N/A"
	}
	return value.String()
}
