package core

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestNodeWarnings(t *testing.T) {
	n := &corev1.Node{Spec: corev1.NodeSpec{ConfigSource: &corev1.NodeConfigSource{}, DoNotUseExternalID: "a", PodCIDRs: []string{"10.0.0.0/24"}}} //nolint:staticcheck // It is warned of.
	want := []string{"spec.configSource: the feature is no longer supported", "spec.externalID: this field is deprecated, and is unused by Kubernetes"}
	if got := Node().Warnings(n); !slices.Equal(got, want) {
		t.Errorf("got warnings %q", got)
	}
}
