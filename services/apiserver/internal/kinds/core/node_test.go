package core

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/scheme"
)

func TestNodeWarnings(t *testing.T) {
	n := &corev1.Node{Spec: corev1.NodeSpec{ConfigSource: &corev1.NodeConfigSource{}, DoNotUseExternalID: "a", PodCIDRs: []string{"10.0.0.0/24"}}} //nolint:staticcheck // It is warned of.
	want := []string{"spec.configSource: the feature is removed", "spec.externalID: this field is deprecated, and is unused by Kubernetes"}
	if got := Node().Warnings(n); !slices.Equal(got, want) {
		t.Errorf("got warnings %q", got)
	}
	if got := Node().Update.Warnings(n, n); !slices.Equal(got, want) {
		t.Errorf("got warnings of an update %q", got)
	}
}

// TestUnusedNodeFields checks that only nodes that have them keep fields of removed and disabled features.
func TestUnusedNodeFields(t *testing.T) {
	with := func() *corev1.Node {
		return &corev1.Node{
			Spec:   corev1.NodeSpec{ConfigSource: &corev1.NodeConfigSource{}, PodPreemptionPolicy: &corev1.NodePodPreemptionPolicy{}}, //nolint:staticcheck // It is dropped.
			Status: corev1.NodeStatus{Config: &corev1.NodeConfigStatus{}},
		}
	}
	has := func(n *corev1.Node) [3]bool {
		return [3]bool{n.Spec.ConfigSource != nil, n.Spec.PodPreemptionPolicy != nil, n.Status.Config != nil} //nolint:staticcheck // It is dropped.
	}
	kind, bare := Node(), &corev1.Node{}
	created := with()
	if kind.PrepareForCreate(created); has(created) != [3]bool{} {
		t.Errorf("created with %+v", created)
	}
	for _, tc := range []struct {
		name    string
		prepare func(obj, old scheme.Object)
		old     *corev1.Node
		want    [3]bool
	}{
		{"new in the spec", kind.Update.Prepare, bare, [3]bool{}},
		{"kept in the spec", kind.Update.Prepare, with(), [3]bool{true, true, true}},
		{"new in the status", kind.Subresources["status"].Prepare, bare, [3]bool{}},
		{"kept in the status", kind.Subresources["status"].Prepare, with(), [3]bool{true, true, true}},
	} {
		n := with()
		if tc.prepare(n, tc.old); has(n) != tc.want {
			t.Errorf("%s: got %v", tc.name, has(n))
		}
	}
}
