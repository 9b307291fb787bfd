package nodedeclaredfeatures

import (
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNodeDeclaredFeatureValidator(t *testing.T) {
	const ofInit, ofPod = "InPlacePodVerticalScalingInitContainers", "InPlacePodLevelResourcesVerticalScaling"
	node := func(name string, features ...string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{DeclaredFeatures: features}}
	}
	pod := func(node string, generation int64, change ...func(*corev1.Pod)) *corev1.Pod {
		p := admissiontest.Pod(func(p *corev1.Pod) {
			p.Spec.NodeName, p.Generation = node, generation
			p.Spec.InitContainers = []corev1.Container{{Name: "i"}}
			p.Spec.Resources = &corev1.ResourceRequirements{}
		})
		for _, c := range change {
			c(p)
		}
		return p
	}
	one := corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}
	container := func(p *corev1.Pod) { p.Spec.Containers[0].Resources = one }
	initContainer := func(p *corev1.Pod) { p.Spec.InitContainers[0].Resources = one }
	whole := func(p *corev1.Pod) { p.Spec.Resources = &one }
	resize := func(p *corev1.Pod) *admission.Request {
		return &admission.Request{Verb: admission.Update, Subresource: "resize", Object: p, Old: pod(p.Spec.NodeName, 1)}
	}
	const refused = `pods "p" is forbidden: `
	for _, tc := range []struct {
		name string
		req  *admission.Request
		want string
	}{
		{"a container", resize(pod("bare", 2, container)), ""},
		{"an init container", resize(pod("bare", 2, initContainer)), refused + "pod update requires features " + ofInit + ` which are not available on node "bare"`},
		{"the pod", resize(pod("bare", 2, whole)), refused + "pod update requires features " + ofPod + ` which are not available on node "bare"`},
		{"both", resize(pod("bare", 2, initContainer, whole)), refused + "pod update requires features " + ofPod + ", " + ofInit + ` which are not available on node "bare"`},
		{"one of both", resize(pod("some", 2, initContainer, whole)), refused + "pod update requires features " + ofInit + ` which are not available on node "some"`},
		{"declared features", resize(pod("full", 2, initContainer, whole)), ""},
		{"a missing node", resize(pod("none", 2, whole)), refused + `node "none" not found`},
		{"a missing node that doesn't matter", resize(pod("none", 2, container)), ""},
		{"no node", resize(pod("", 2, whole)), ""},
		{"the same generation", resize(pod("bare", 1, whole)), ""},
		{"the pod itself", &admission.Request{Verb: admission.Update, Object: pod("bare", 2, whole), Old: pod("bare", 1)}, refused + "pod update requires features " + ofPod + ` which are not available on node "bare"`},
		{"the status", &admission.Request{Verb: admission.Update, Subresource: "status", Object: pod("bare", 2, whole), Old: pod("bare", 1)}, ""},
		{"create", &admission.Request{Object: pod("bare", 1, whole)}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := admissiontest.New(node("bare"), node("some", ofPod), node("full", "Another", ofPod, ofInit))
			_, err := w.Admit(t, tc.req, Plugin(w.Objects(), version.MajorMinor(1, 37)))
			admissiontest.Refused(t, err, tc.want)
		})
	}
}
