package flowcontrol

import (
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/kindtest"
)

func TestGenerations(t *testing.T) {
	t.Run("flow schema", func(t *testing.T) {
		obj := kindtest.Sample[*flowcontrolv1.FlowSchema](t, FlowSchema())
		changed := obj.DeepCopy()
		changed.Spec.MatchingPrecedence = 9
		kindtest.Generations(t, FlowSchema(), obj, changed)
	})
	t.Run("priority level", func(t *testing.T) {
		obj := kindtest.Sample[*flowcontrolv1.PriorityLevelConfiguration](t, PriorityLevel())
		changed := obj.DeepCopy()
		changed.Spec.Type = flowcontrolv1.PriorityLevelEnablementExempt
		kindtest.Generations(t, PriorityLevel(), obj, changed)
	})
}

// TestStatusKeepsMetadata checks that a status update changes neither a label nor the prefix of the name.
func TestStatusKeepsMetadata(t *testing.T) {
	old := kindtest.Sample[*flowcontrolv1.FlowSchema](t, FlowSchema())
	changed := old.DeepCopy()
	changed.Labels, changed.GenerateName = map[string]string{"a": "b"}, "x"
	changed.Status.Conditions = []flowcontrolv1.FlowSchemaCondition{{Type: "Dangling", Status: "True"}}
	if FlowSchema().Subresources["status"].Prepare(changed, old); changed.Labels["a"] != "" || changed.GenerateName != "" || len(changed.Status.Conditions) != 1 {
		t.Errorf("the status became %+v", changed)
	}
	was := kindtest.Sample[*flowcontrolv1.PriorityLevelConfiguration](t, PriorityLevel())
	renamed := was.DeepCopy()
	renamed.GenerateName = "x"
	if PriorityLevel().Subresources["status"].Prepare(renamed, was); renamed.GenerateName != "" {
		t.Errorf("the status of a level became %+v", renamed)
	}
}
