package podtopologylabels

import (
	"maps"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const zone, region = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"

func TestPodTopologyLabels(t *testing.T) {
	type set = map[string]string
	at := func(node string, labels set) *corev1.Pod {
		return admissiontest.Pod(func(p *corev1.Pod) { p.Spec.NodeName, p.Labels = node, labels })
	}
	binding := func(kind, node string, labels set) *admission.Request {
		return &admission.Request{
			Subresource: "binding", Object: &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: labels}, Target: corev1.ObjectReference{Kind: kind, Name: node}},
		}
	}
	for _, tc := range []struct {
		name string
		req  *admission.Request
		want set
	}{
		{"a pod without a node", &admission.Request{Object: at("", nil)}, nil},
		{"a pod on a node", &admission.Request{Object: at("full", nil)}, set{zone: "z", region: "r"}},
		{"a pod with labels", &admission.Request{Object: at("full", set{"a": "b", zone: "own"})}, set{"a": "b", zone: "z", region: "r"}},
		{"a pod on a node without labels", &admission.Request{Object: at("bare", nil)}, nil},
		{"a pod on a node with one label", &admission.Request{Object: at("zoned", set{region: "own"})}, set{zone: "z", region: "own"}},
		{"a pod on a missing node", &admission.Request{Object: at("none", nil)}, nil},
		{"an update", &admission.Request{Verb: admission.Update, Object: at("full", nil), Old: at("full", nil)}, nil},
		{"a subresource", &admission.Request{Object: at("full", nil), Subresource: "status"}, nil},
		{"a binding", binding("Node", "full", nil), set{zone: "z", region: "r"}},
		{"a binding with labels", binding("Node", "full", set{"a": "b", zone: "own"}), set{"a": "b", zone: "z", region: "r"}},
		{"a binding to a missing node", binding("Node", "none", nil), nil},
		{"a binding without a kind", binding("", "full", nil), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			node := func(name string, labels set) *corev1.Node {
				return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
			}
			w := admissiontest.New(node("full", set{zone: "z", region: "r", "other": "x"}), node("zoned", set{zone: "z"}), node("bare", nil))
			tc.req.Kind, tc.req.Namespace, tc.req.Name = scheme.For[*corev1.Pod](w.Table), "ns", "p"
			if _, err := w.Admit(t, tc.req, Plugin(w.Objects())); err != nil {
				t.Fatal(err)
			}
			if got := tc.req.Object.GetLabels(); !maps.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
