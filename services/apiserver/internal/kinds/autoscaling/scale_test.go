package autoscaling

import (
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/kindtest"
)

func TestScaleRow(t *testing.T) {
	kindtest.Row(t, &kinds.Definition{Columns: ScaleColumns()}, &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: "x", CreationTimestamp: kindtest.Ago(3 * time.Hour)},
		Spec:       autoscalingv1.ScaleSpec{Replicas: 3}, Status: autoscalingv1.ScaleStatus{Replicas: 2},
	}, []string{"Name", "Desired", "Available", "Age"}, []any{"x", int64(3), int64(2), "3h"})
}
