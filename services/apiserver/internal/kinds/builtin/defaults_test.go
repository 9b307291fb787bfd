package builtin

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/core"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/volume"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/scheduling"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/storage"
)

func TestPolicyDefaults(t *testing.T) {
	limits := &corev1.LimitRange{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
		{Type: "Container", Max: corev1.ResourceList{"cpu": resource.MustParse("2")}, Min: corev1.ResourceList{"memory": resource.MustParse("1Gi")}},
		{Type: "Pod", Max: corev1.ResourceList{"cpu": resource.MustParse("2")}},
	}}}
	s := core.LimitRange()
	s.Default(limits)
	item := limits.Spec.Limits[0]
	if len(item.Default) != 1 || item.Default.Cpu().String() != "2" || item.DefaultRequest.Cpu().String() != "2" || item.DefaultRequest.Memory().String() != "1Gi" {
		t.Errorf("container: got defaults %v and %v", item.Default, item.DefaultRequest)
	}
	if other := limits.Spec.Limits[1]; other.Default != nil || other.DefaultRequest != nil {
		t.Errorf("pod: got defaults %+v, want none", other)
	}
	if s.PrepareForCreate(limits); limits.Name == "" {
		t.Error("a limit range without a name has no defaults")
	}
	class := &schedulingv1.PriorityClass{}
	scheduling.PriorityClass().Default(class)
	if scheduling.PriorityClass().PrepareForCreate(class); *class.PreemptionPolicy != corev1.PreemptLowerPriority || class.Generation != 1 {
		t.Errorf("got priority class %+v", class)
	}
	storageClassObject := &storagev1.StorageClass{}
	if storage.StorageClass().Default(storageClassObject); *storageClassObject.ReclaimPolicy != "Delete" || *storageClassObject.VolumeBindingMode != "Immediate" {
		t.Errorf("got storage class %+v", storageClassObject)
	}
	claim := &corev1.PersistentVolumeClaim{}
	if volume.PersistentVolumeClaim().Default(claim); *claim.Spec.VolumeMode != "Filesystem" || claim.Status.Phase != corev1.ClaimPending {
		t.Errorf("got claim %+v", claim)
	}
}
