package builtin

import (
	"slices"
	"testing"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// TestWorkloadsAreServedInFull checks that no kind of workloads falls back to the generic level.
func TestWorkloadsAreServedInFull(t *testing.T) {
	core := []string{"Pod", "PodTemplate", "ReplicationController"}
	for gvk, kind := range All(Config{}) {
		workload := slices.Contains([]string{"apps", "autoscaling", "batch"}, gvk.Group) || gvk.Group == "" && slices.Contains(core, gvk.Kind)
		if workload && kind.Validate != nil && kind.Level != kinds.Full {
			t.Errorf("%s: got level %s", gvk, kind.Level)
		}
	}
}
