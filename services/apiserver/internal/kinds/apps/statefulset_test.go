package apps

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/kindtest"
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
	s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType, RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{}}
	if defaultStatefulSet(s); *s.Spec.UpdateStrategy.RollingUpdate.Partition != 0 || s.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable != nil {
		t.Errorf("a strategy that must not be there: got %+v", s.Spec.UpdateStrategy.RollingUpdate)
	}
}

func TestStatefulSetGenerations(t *testing.T) {
	obj := kindtest.Sample[*appsv1.StatefulSet](t, StatefulSet())
	changed := obj.DeepCopy()
	changed.Spec.Replicas, changed.Status.Replicas = new(int32(9)), 9
	kindtest.Generations(t, StatefulSet(), obj, changed)
	if changed.Status.Replicas != 0 {
		t.Error("an update of the spec changed the status")
	}
}

func TestStatefulSetWarnings(t *testing.T) {
	set := kindtest.Sample[*appsv1.StatefulSet](t, StatefulSet())
	set.Spec.RevisionHistoryLimit = new(int32(-1))
	set.Spec.Template.Spec.NodeSelector = map[string]string{"beta.kubernetes.io/os": "x"}
	set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{Spec: corev1.PersistentVolumeClaimSpec{
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("100m")}},
	}}}
	want := []string{
		`spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead`,
		`spec.volumeClaimTemplates[0].resources.requests[storage]: fractional byte value "100m" is invalid, must be an integer`,
		"spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended",
	}
	if diff := cmp.Diff(want, StatefulSet().Warnings(set)); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	want = []string{`spec.volumeClaimTemplates[0].Spec.resources.requests[storage]: fractional byte value "100m" is invalid, must be an integer`, want[2]}
	if diff := cmp.Diff(want, StatefulSet().Update.Warnings(set, set)); diff != "" {
		t.Errorf("warnings of an update that does not change the pods (-want +got):\n%s", diff)
	}
}
