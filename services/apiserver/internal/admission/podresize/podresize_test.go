package podresize

import (
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func list(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

func TestPodResizeValidator(t *testing.T) {
	node := func(name, os string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Allocatable: list("2", "1Ki")}}
		if os != "" {
			n.Labels = map[string]string{"kubernetes.io/os": os}
		}
		return n
	}
	pod := func(node, cpu, memory string, generation int64) *corev1.Pod {
		return admissiontest.Pod(func(p *corev1.Pod) {
			p.Spec.NodeName, p.Generation = node, generation
			p.Spec.Containers[0].Resources.Requests = list(cpu, memory)
		})
	}
	resize := func(p *corev1.Pod) *admission.Request {
		return &admission.Request{Verb: admission.Update, Subresource: "resize", Object: p, Old: pod(p.Spec.NodeName, "1", "1", 1)}
	}
	const refused, lacks = `pods "p" is forbidden: `, "node didn't have enough allocatable resources: "
	for _, tc := range []struct {
		name        string
		req         *admission.Request
		want, cause string
	}{
		{"all of the node", resize(pod("plain", "2", "1Ki", 2)), "", ""},
		{"a node that says it is Linux", resize(pod("linux", "2", "1Ki", 2)), "", ""},
		{"too much CPU", resize(pod("plain", "2001m", "1Ki", 2)), refused + lacks + "cpu, requested: 2001, allocatable: 2000", "NodeCapacity"},
		{"too much memory", resize(pod("plain", "2", "1025", 2)), refused + lacks + "memory, requested: 1025, allocatable: 1024", "NodeCapacity"},
		{"too much of both", resize(pod("linux", "3", "2Ki", 2)), refused + lacks + "cpu, requested: 3000, allocatable: 2000; memory, requested: 2048, allocatable: 1024", "NodeCapacity"},
		{"another system", resize(pod("windows", "1", "1", 2)), refused + `pod resize is only supported on linux nodes, node "windows" is "windows"`, "UnsupportedPlatform"},
		{"a missing node", resize(pod("none", "1", "1", 2)), refused + `node "none" not found`, ""},
		{"no node", resize(pod("", "3", "1", 2)), "", ""},
		{"no change", resize(pod("plain", "3", "1", 1)), "", ""},
		{"an update of the pod", &admission.Request{Verb: admission.Update, Object: pod("plain", "3", "1", 2), Old: pod("plain", "1", "1", 1)}, "", ""},
		{"create", &admission.Request{Object: pod("plain", "3", "1", 1)}, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := admissiontest.New(node("plain", ""), node("linux", "linux"), node("windows", "windows"))
			_, err := w.Admit(t, tc.req, Plugin(w.Objects()))
			admissiontest.Refused(t, err, tc.want)
			if tc.cause != "" && !apierrors.HasStatusCause(err, metav1.CauseType(tc.cause)) {
				t.Errorf("%v lacks the cause %s", err, tc.cause)
			}
		})
	}
}
