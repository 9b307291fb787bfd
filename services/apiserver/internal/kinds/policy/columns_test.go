package policy

import (
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/kindtest"
)

// TestRows checks that the columns and cells are those that kubectl shows against Kubernetes.
func TestRows(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "one", CreationTimestamp: kindtest.Ago(5 * time.Minute)}
	for _, tc := range []struct {
		name    string
		kind    *kinds.Definition
		obj     scheme.Object
		columns []string
		cells   []any
	}{
		{
			"budget", PodDisruptionBudget(), &policyv1.PodDisruptionBudget{
				ObjectMeta: meta, Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromString("50%"))},
				Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 2},
			},
			[]string{"Name", "Min Available", "Max Unavailable", "Allowed Disruptions", "Age"},
			[]any{"one", "50%", "N/A", int64(2), "5m"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) { kindtest.Row(t, tc.kind, tc.obj, tc.columns, tc.cells) })
	}
}
