package storageprotection

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
)

func TestFinalizers(t *testing.T) {
	named := func(finalizers ...string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: "x", Finalizers: finalizers}
	}
	for _, tt := range []struct {
		name        string
		obj         scheme.Object
		verb        admission.Verb
		subresource string
		want        []string
	}{
		{"a claim", &corev1.PersistentVolumeClaim{ObjectMeta: named("example.com/a")}, admission.Create, "", []string{"example.com/a", "kubernetes.io/pvc-protection"}},
		{"a claim that has it", &corev1.PersistentVolumeClaim{ObjectMeta: named("kubernetes.io/pvc-protection")}, admission.Create, "", []string{"kubernetes.io/pvc-protection"}},
		{"a volume", &corev1.PersistentVolume{ObjectMeta: named()}, admission.Create, "", []string{"kubernetes.io/pv-protection"}},
		{"an attributes class", &storagev1.VolumeAttributesClass{ObjectMeta: named()}, admission.Create, "", []string{"kubernetes.io/vac-protection"}},
		{"an update", &corev1.PersistentVolume{ObjectMeta: named()}, admission.Update, "", nil},
		{"a subresource", &corev1.PersistentVolume{ObjectMeta: named()}, admission.Create, "status", nil},
		{"another kind", &corev1.ConfigMap{ObjectMeta: named()}, admission.Create, "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := &admission.Request{Verb: tt.verb, Object: tt.obj, Subresource: tt.subresource}
			if err := Plugin().Mutate(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			if got := tt.obj.GetFinalizers(); !slices.Equal(got, tt.want) {
				t.Errorf("finalizers %q, want %q", got, tt.want)
			}
		})
	}
}
