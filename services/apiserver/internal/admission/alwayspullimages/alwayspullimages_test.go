package alwayspullimages

import (
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// try admits a request by the plugin alone, and returns the warnings.
func try(t *testing.T, w *admissiontest.World, req *admission.Request) ([]string, error) {
	t.Helper()
	return w.Admit(t, req, Plugin())
}

func TestAlwaysPullImages(t *testing.T) {
	given := func(policy corev1.PullPolicy) *corev1.Pod {
		return admissiontest.Pod(func(p *corev1.Pod) {
			p.Spec.Containers[0].ImagePullPolicy = policy
			p.Spec.InitContainers = []corev1.Container{{Name: "i", ImagePullPolicy: policy}}
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{PullPolicy: policy}}}}
		})
	}
	w := admissiontest.New()
	p := given(corev1.PullNever)
	if _, err := try(t, w, &admission.Request{Object: p}); err != nil {
		t.Fatal(err)
	}
	if p.Spec.Containers[0].ImagePullPolicy != corev1.PullAlways || p.Spec.InitContainers[0].ImagePullPolicy != corev1.PullAlways || p.Spec.Volumes[0].Image.PullPolicy != corev1.PullAlways {
		t.Errorf("got %+v", p.Spec)
	}
	old := given(corev1.PullNever)
	if _, err := try(t, w, &admission.Request{Verb: admission.Update, Object: old, Old: old.DeepCopy()}); err != nil || old.Spec.Containers[0].ImagePullPolicy != corev1.PullNever {
		t.Errorf("an update without new images: got %v, %+v", err, old.Spec.Containers)
	}
	err := checkPullImages(t.Context(), &admission.Request{Verb: admission.Create, Kind: w.Table.KindOf(p), Name: "p", Object: given(corev1.PullNever)})
	admissiontest.Refused(t, err, `spec.initContainers[0].imagePullPolicy: Unsupported value: "Never": supported values: "Always"`)
}
