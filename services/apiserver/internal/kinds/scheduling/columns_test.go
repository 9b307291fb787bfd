package scheduling

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
			"priority class", PriorityClass(), &schedulingv1.PriorityClass{ObjectMeta: meta, Value: 7, GlobalDefault: true, PreemptionPolicy: new(corev1.PreemptNever)},
			[]string{"Name", "Value", "Global-Default", "Age", "PreemptionPolicy"},
			[]any{"one", int64(7), true, "5m", "Never"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) { kindtest.Row(t, tc.kind, tc.obj, tc.columns, tc.cells) })
	}
}
