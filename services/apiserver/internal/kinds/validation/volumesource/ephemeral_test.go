package volumesource

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

// TestEphemeral checks a claim that is created with its pod: what it may hold, and that its name,
// which has those of pod and volume, is valid.
func TestEphemeral(t *testing.T) {
	const at = "v.ephemeral.volumeClaimTemplate"
	sized := corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}}
	sized.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	long := strings.Repeat("p", 248) // With "-data" as long as a name may be.
	for _, tc := range []struct {
		name, pod string
		meta      metav1.ObjectMeta
		spec      corev1.PersistentVolumeClaimSpec
		want      []string
	}{
		{"labels and annotations, the longest name", long, metav1.ObjectMeta{
			Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"a": "b c"},
		}, sized, nil},
		{"a name too long", long + "p", metav1.ObjectMeta{}, sized, []string{
			`v.name: Invalid value: "data": PVC name "` + long + `p-data": must be no more than 253 characters`,
		}},
		{"a pod without a name", "", metav1.ObjectMeta{}, sized, nil},
		{"a claim without anything", "web", metav1.ObjectMeta{}, corev1.PersistentVolumeClaimSpec{}, []string{
			at + ".spec.accessModes: Required value: at least 1 access mode is required", at + ".spec.resources[storage]: Required value",
		}},
		{"metadata of an object", "web", metav1.ObjectMeta{
			Namespace: "default", GenerateName: "a", Labels: map[string]string{"a": "b c"}, Finalizers: []string{"a/b"},
		}, sized, []string{
			at + `.metadata.labels: Invalid value: "b c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', ` +
				"and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is " +
				"'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
			at + ".metadata.generateName: Forbidden: cannot be set", at + ".metadata.namespace: Forbidden: cannot be set",
			at + ".metadata.finalizers: Forbidden: cannot be set",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := &corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
				VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{ObjectMeta: tc.meta, Spec: tc.spec},
			}}}
			errortest.Exactly(t, Volume(v, tc.pod, field.NewPath("v")), tc.want...)
		})
	}
}
