package flowcontrol

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/kindtest"
)

// TestRows checks that the columns and cells are those that kubectl shows against Kubernetes.
func TestRows(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "one", CreationTimestamp: kindtest.Ago(5 * time.Minute)}
	schema := []string{"Name", "PriorityLevel", "MatchingPrecedence", "DistinguisherMethod", "Age", "MissingPL"}
	level := []string{"Name", "Type", "NominalConcurrencyShares", "Queues", "HandSize", "QueueLengthLimit", "Age"}
	for _, tc := range []struct {
		name    string
		kind    *kinds.Definition
		obj     scheme.Object
		columns []string
		cells   []any
	}{
		{"bare flow schema", FlowSchema(), &flowcontrolv1.FlowSchema{ObjectMeta: meta}, schema, []any{"one", "", int64(0), "<none>", "5m", "?"}},
		{
			"flow schema", FlowSchema(), &flowcontrolv1.FlowSchema{
				ObjectMeta: meta, Status: flowcontrolv1.FlowSchemaStatus{Conditions: []flowcontrolv1.FlowSchemaCondition{{Type: "Dangling", Status: "True"}}},
				Spec: flowcontrolv1.FlowSchemaSpec{
					PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: "low"}, MatchingPrecedence: 7,
					DistinguisherMethod: &flowcontrolv1.FlowDistinguisherMethod{Type: "ByUser"},
				},
			},
			schema, []any{"one", "low", int64(7), "ByUser", "5m", "True"},
		},
		{
			"exempt level", PriorityLevel(), &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: meta, Spec: flowcontrolv1.PriorityLevelConfigurationSpec{Type: "Exempt"}},
			level, []any{"one", "Exempt", "<none>", "<none>", "<none>", "<none>", "5m"},
		},
		{
			"limited level", PriorityLevel(), &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: meta, Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
				Type: "Limited", Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
					NominalConcurrencyShares: new(int32(5)),
					LimitResponse:            flowcontrolv1.LimitResponse{Queuing: &flowcontrolv1.QueuingConfiguration{Queues: 1, HandSize: 2, QueueLengthLimit: 3}},
				},
			}},
			level, []any{"one", "Limited", int64(5), int64(1), int64(2), int64(3), "5m"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) { kindtest.Row(t, tc.kind, tc.obj, tc.columns, tc.cells) })
	}
}

// TestFlowSchemasAreShownInTheOrderInWhichTheyMatch checks the order of the rows.
func TestFlowSchemasAreShownInTheOrderInWhichTheyMatch(t *testing.T) {
	schema := func(name string, precedence int32) scheme.Object {
		return &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: flowcontrolv1.FlowSchemaSpec{MatchingPrecedence: precedence}}
	}
	objs := []scheme.Object{schema("a", 9), schema("c", 1), schema("b", 1)}
	var names []any
	for _, row := range FlowSchema().Columns.Table(objs, nil, columns.Options{}, kindtest.Now()).Rows {
		names = append(names, row.Cells[0])
	}
	if diff := cmp.Diff([]any{"b", "c", "a"}, names); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if objs[0].GetName() != "a" {
		t.Error("the argument was sorted")
	}
}
