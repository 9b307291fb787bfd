package apps

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestDefaultStatefulSet(t *testing.T) {
	s := &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{}}}}
	defaultStatefulSet(s)
	s.Spec.Template = corev1.PodTemplateSpec{}
	want := appsv1.StatefulSetSpec{
		Replicas: new(int32(1)), RevisionHistoryLimit: new(int32(10)), PodManagementPolicy: appsv1.OrderedReadyPodManagement,
		UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType, RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{
			Partition: new(int32(0)), MaxUnavailable: new(intstr.FromInt32(1)),
		}},
		PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: "Retain", WhenScaled: "Retain"},
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
			Spec:     corev1.PersistentVolumeClaimSpec{VolumeMode: new(corev1.PersistentVolumeFilesystem)},
			Status:   corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
		}},
	}
	if diff := cmp.Diff(want, s.Spec); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	s = &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType}}}
	defaultStatefulSet(s)
	if s.Spec.UpdateStrategy.RollingUpdate != nil {
		t.Errorf("a strategy with a type: got %+v", s.Spec.UpdateStrategy)
	}
}
