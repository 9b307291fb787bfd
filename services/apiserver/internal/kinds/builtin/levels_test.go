package builtin

import (
	"slices"
	"testing"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// TestKindsAreServedInFull checks that no kind of workloads, and none that configures admission, falls back to the
// generic level.
func TestKindsAreServedInFull(t *testing.T) {
	core := []string{"Pod", "PodTemplate", "ReplicationController"}
	for gvk, kind := range All(Config{}) {
		full := slices.Contains([]string{"admissionregistration.k8s.io", "apps", "autoscaling", "batch"}, gvk.Group) || gvk.Group == "" && slices.Contains(core, gvk.Kind)
		if full && kind.Validate != nil && kind.Level != kinds.Full {
			t.Errorf("%s: got level %s", gvk, kind.Level)
		}
	}
}
