package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/podtemplate"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

// TestTemplate checks what differs between templates and pods: templates existed before some checks,
// and have neither a name nor ephemeral containers.
func TestTemplate(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*corev1.PodTemplateSpec)
		want   []string
	}{
		{"spaces around an image", func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].Image = " a " }, nil},
		{"tokens of no service account", func(p *corev1.PodTemplateSpec) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "a"}}},
			}}}}
		}, nil},
		{"gates of a bound pod", func(p *corev1.PodTemplateSpec) {
			p.Spec.NodeName, p.Spec.SchedulingGates = "n", []corev1.PodSchedulingGate{{Name: "a"}}
		}, nil},
		{"labels and annotations", func(p *corev1.PodTemplateSpec) {
			p.Labels, p.Annotations = map[string]string{"a b": "c"}, map[string]string{"a b": "c", corev1.PodDeletionCost: "x", corev1.MirrorPodAnnotationKey: "y"}
		}, []string{
			`template.labels: Invalid value: "a b": ` + badKey, `template.annotations: Invalid value: "a b": ` + badKey,
			`template.annotations[kubernetes.io/config.mirror]: Invalid value: "y": must set spec.nodeName if mirror pod annotation is set`,
			`template.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: "x": must be a 32bit integer`,
		}},
		{"ephemeral containers", func(p *corev1.PodTemplateSpec) {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "a", Image: "a"}}}
		}, []string{"template.spec.ephemeralContainers: Forbidden: ephemeral containers not allowed in pod template"}},
		{"another port of the host's network", func(p *corev1.PodTemplateSpec) {
			p.Spec.HostNetwork = true
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 1, HostPort: 2}}
		}, []string{"template.spec.containers[0].ports[0].hostPort: Invalid value: 2: must match `containerPort` when `hostNetwork` is true"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			template := &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Name: "t", Namespace: "default"}, Template: corev1.PodTemplateSpec{Spec: valid().Spec}}
			tc.change(&template.Template)
			podtemplate.DefaultPodTemplate(&template.Template)
			errortest.Exactly(t, Template(&template.Template, nil, field.NewPath("template")), tc.want...)
		})
	}
	p := valid()
	p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "a"}}},
	}}}}
	podtemplate.DefaultPod(p)
	errortest.Exactly(t, Validate(p),
		"spec.volumes[0].projected.sources[0].serviceAccountToken: Forbidden: must not be specified when serviceAccountName is not set")
}
