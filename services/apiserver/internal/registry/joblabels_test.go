package registry_test

import (
	"maps"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
)

// TestLabelsOfJobs checks that a new job without labels gets those of its pods, with the generated ones, and
// that they are its own from then on.
func TestLabelsOfJobs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	jobs := resource[*batchv1.Job](w)
	for name, labels := range map[string]map[string]string{"plain": nil, "labelled": {"a": "b"}} {
		created, err := jobs.Create(t.Context(), "default", &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: maps.Clone(labels)}, Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "a", Image: "b"}},
			}},
		}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		j := created.(*batchv1.Job)
		if j.Labels[batchv1.JobNameLabel] != name || j.Labels["a"] != labels["a"] || !maps.Equal(j.Labels, j.Spec.Template.Labels) {
			t.Errorf("%s: got labels %v, and %v of pods", name, j.Labels, j.Spec.Template.Labels)
		}
		updated, err := jobs.Update(t.Context(), "default", name, func(current scheme.Object) (scheme.Object, error) {
			obj := current.DeepCopyObject().(*batchv1.Job)
			obj.Labels = map[string]string{"c": "d"}
			return obj, nil
		}, registry.UpdateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if j := updated.(*batchv1.Job); len(j.Labels) != 1 || j.Spec.Template.Labels["c"] != "" {
			t.Errorf("%s: after a change of its labels, got %v, and %v of pods", name, j.Labels, j.Spec.Template.Labels)
		}
	}
}
