package storage

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

func TestStorageClassWarnings(t *testing.T) {
	class := &storagev1.StorageClass{AllowedTopologies: []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{
		{Key: "zone"}, {Key: "failure-domain.beta.kubernetes.io/zone"},
	}}}}
	want := []string{`allowedTopologies[0].matchLabelExpressions[1].key: failure-domain.beta.kubernetes.io/zone is deprecated since v1.17; use "topology.kubernetes.io/zone" instead`}
	if got := StorageClass().Warnings(class); !slices.Equal(got, want) {
		t.Errorf("got warnings %q", got)
	}
}

func TestDefaultStorageClass(t *testing.T) {
	class := &storagev1.StorageClass{}
	if StorageClass().Default(class); *class.ReclaimPolicy != "Delete" || *class.VolumeBindingMode != "Immediate" {
		t.Errorf("got storage class %+v", class)
	}
}
