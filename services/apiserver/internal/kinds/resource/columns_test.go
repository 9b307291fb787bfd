package resource

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/kindtest"
)

// TestRows checks that the columns and cells are those that kubectl shows against Kubernetes.
func TestRows(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "one", CreationTimestamp: kindtest.Ago(5 * time.Minute)}
	gone := metav1.ObjectMeta{
		Name: "one", CreationTimestamp: kindtest.Ago(5 * time.Minute), DeletionTimestamp: new(kindtest.Ago(0)),
		Annotations: map[string]string{corev1.BetaStorageClassAnnotation: "old"},
	}
	claim := []string{"Name", "State", "Age"}
	for _, tc := range []struct {
		name    string
		kind    *kinds.Definition
		obj     scheme.Object
		columns []string
		cells   []any
	}{
		{"device class", DeviceClass(), &resourcev1.DeviceClass{ObjectMeta: meta}, []string{"Name", "Age"}, []any{"one", "5m"}},
		{"claim template", ResourceClaimTemplate(), &resourcev1.ResourceClaimTemplate{ObjectMeta: meta}, []string{"Name", "Age"}, []any{"one", "5m"}},
		{"pending claim", ResourceClaim(), &resourcev1.ResourceClaim{ObjectMeta: meta}, claim, []any{"one", "pending", "5m"}},
		{"deleted claim", ResourceClaim(), &resourcev1.ResourceClaim{ObjectMeta: gone}, claim, []any{"one", "deleted", "5m"}},
		{
			"allocated claim", ResourceClaim(), &resourcev1.ResourceClaim{ObjectMeta: meta, Status: resourcev1.ResourceClaimStatus{Allocation: &resourcev1.AllocationResult{}}},
			claim, []any{"one", "allocated", "5m"},
		},
		{
			"reserved claim", ResourceClaim(), &resourcev1.ResourceClaim{ObjectMeta: gone, Status: resourcev1.ResourceClaimStatus{
				Allocation: &resourcev1.AllocationResult{}, ReservedFor: make([]resourcev1.ResourceClaimConsumerReference, 1),
			}},
			claim, []any{"one", "deleted,allocated,reserved", "5m"},
		},
		{
			"slice", ResourceSlice(), &resourcev1.ResourceSlice{ObjectMeta: meta, Spec: resourcev1.ResourceSliceSpec{
				Driver: "d", NodeName: new("n"), Pool: resourcev1.ResourcePool{Name: "p"},
			}},
			[]string{"Name", "Node", "Driver", "Pool", "Age"}, []any{"one", "n", "d", "p", "5m"},
		},
		{
			"taint rule", DeviceTaintRule(), &resourcev1.DeviceTaintRule{ObjectMeta: meta, Spec: resourcev1.DeviceTaintRuleSpec{
				Taint: resourcev1.DeviceTaint{Key: "k", Value: "v", Effect: "NoExecute", TimeAdded: new(kindtest.Ago(3 * time.Hour))},
			}},
			[]string{"Name", "Key", "Value", "Effect", "TimeAdded", "Age"}, []any{"one", "k", "v", "NoExecute", "3h", "5m"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) { kindtest.Row(t, tc.kind, tc.obj, tc.columns, tc.cells) })
	}
}
