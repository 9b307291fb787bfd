package flowcontrol

import (
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
	"github.com/garboard/garboard/services/apiserver/internal/upkeep/flowcontrol"
)

func TestPriorityLevel(t *testing.T) {
	type level = *flowcontrolv1.PriorityLevelConfiguration
	newLevel := func() level {
		p := &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: meta("x"), Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
			Type: "Limited", Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{LimitResponse: flowcontrolv1.LimitResponse{
				Type: "Queue", Queuing: &flowcontrolv1.QueuingConfiguration{},
			}},
		}}
		defaultPriorityLevel(p)
		return p
	}
	for name, tc := range map[string]struct {
		change func(level)
		want   []string
	}{
		"fine":                {change: func(level) {}},
		"an older annotation": {change: func(p level) { p.Annotations = map[string]string{preservesZero: ""} }, want: []string{"metadata.annotations: Forbidden: annotation 'flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares' is forbidden"}},
		"an exempt one": {
			change: func(p level) {
				p.Spec.Type, p.Spec.Exempt = "Exempt", &flowcontrolv1.ExemptPriorityLevelConfiguration{NominalConcurrencyShares: new(int32(-1)), LendablePercent: new(int32(101))}
			},
			want: []string{"spec.type: Invalid value: \"Exempt\": must be 'Exempt' if and only if `name` is 'exempt'", "spec.exempt.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer", "spec.exempt.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive", "spec.limited: Forbidden"},
		},
		"no type":         {change: func(p level) { p.Spec.Type = "" }, want: []string{"spec.type: Required value", "spec.limited: Forbidden"}},
		"an unknown type": {change: func(p level) { p.Spec.Type = "Odd" }, want: []string{`spec.type: Unsupported value: "Odd": supported values: "Exempt", "Limited"`, "spec.limited: Forbidden"}},
		"an unknown type without response": {change: func(p level) {
			p.Spec.Type, p.Spec.Exempt, p.Spec.Limited = "Odd", &flowcontrolv1.ExemptPriorityLevelConfiguration{}, &flowcontrolv1.LimitedPriorityLevelConfiguration{}
		}, want: []string{
			`spec.type: Unsupported value: "Odd": supported values: "Exempt", "Limited"`, "spec.exempt: Forbidden",
			"spec.limited.limitResponse.type: Required value", "spec.limited: Forbidden",
		}},
		"nothing": {change: func(p level) { p.Spec.Limited, p.Spec.Exempt = nil, &flowcontrolv1.ExemptPriorityLevelConfiguration{} }, want: []string{
			"spec.exempt: Forbidden", "spec.limited: Required value",
		}},
		"nothing to borrow": {change: func(p level) { p.Spec.Limited.BorrowingLimitPercent = new(int32(0)) }},
		"shares": {
			change: func(p level) {
				p.Spec.Limited.NominalConcurrencyShares, p.Spec.Limited.LendablePercent, p.Spec.Limited.BorrowingLimitPercent = new(int32(-1)), new(int32(-1)), new(int32(-1))
			},
			want: []string{"spec.limited.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer", "spec.limited.lendablePercent: Invalid value: -1: must be between 0 and 100, inclusive", "spec.limited.borrowingLimitPercent: Invalid value: -1: if specified, must be a non-negative integer"},
		},
		"no response":         {change: func(p level) { p.Spec.Limited.LimitResponse.Type = "" }, want: []string{"spec.limited.limitResponse.type: Required value", "spec.limited.limitResponse.queuing: Forbidden"}},
		"an unknown response": {change: func(p level) { p.Spec.Limited.LimitResponse.Type = "Odd" }, want: []string{"spec.limited.limitResponse.queuing: Forbidden", `spec.limited.limitResponse.type: Unsupported value: "Odd": supported values: "Queue", "Reject"`}},
		"queues to reject":    {change: func(p level) { p.Spec.Limited.LimitResponse.Type = "Reject" }, want: []string{"spec.limited.limitResponse.queuing: Forbidden"}},
		"no queues":           {change: func(p level) { p.Spec.Limited.LimitResponse.Queuing = nil }, want: []string{"spec.limited.limitResponse.queuing: Required value"}},
		"negative queues": {
			change: func(p level) {
				*p.Spec.Limited.LimitResponse.Queuing = flowcontrolv1.QueuingConfiguration{Queues: -1, HandSize: -1, QueueLengthLimit: -1}
			},
			want: []string{"spec.limited.limitResponse.queuing.queueLengthLimit: Invalid value: -1: must be positive", "spec.limited.limitResponse.queuing.queues: Invalid value: -1: must be positive", "spec.limited.limitResponse.queuing.handSize: Invalid value: -1: must be positive"},
		},
		"too many queues": {
			change: func(p level) {
				*p.Spec.Limited.LimitResponse.Queuing = flowcontrolv1.QueuingConfiguration{Queues: 10000001, HandSize: 3, QueueLengthLimit: 1}
			},
			want: []string{"spec.limited.limitResponse.queuing.queues: Invalid value: 10000001: must not be greater than 10000000", "spec.limited.limitResponse.queuing.handSize: Invalid value: 3: required entropy bits of deckSize 10000001 and handSize 3 should not be greater than 60"},
		},
		"a large hand": {change: func(p level) { p.Spec.Limited.LimitResponse.Queuing.HandSize = 65 }, want: []string{"spec.limited.limitResponse.queuing.handSize: Invalid value: 65: should not be greater than queues (64)"}},
		"conditions":   {change: func(p level) { p.Status.Conditions = []flowcontrolv1.PriorityLevelConfigurationCondition{{}} }, want: []string{"status.conditions[0].type: Required value"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newLevel()
			tc.change(p)
			errortest.Exactly(t, validatePriorityLevel(p), tc.want...)
			errortest.Exactly(t, validatePriorityLevelUpdate(p, p), tc.want...)
		})
	}
	for _, p := range flowcontrol.PriorityLevels() {
		defaultPriorityLevel(p)
		errortest.Exactly(t, validatePriorityLevel(p))
	}
	exempt, catchAll := flowcontrol.PriorityLevels()[0], flowcontrol.PriorityLevels()[1]
	exempt.Spec.Exempt.LendablePercent = new(int32(50))
	errortest.Exactly(t, validatePriorityLevel(exempt))
	catchAll.Spec.Limited.NominalConcurrencyShares = new(int32(6))
	errortest.Contain(t, validatePriorityLevel(catchAll), "spec of 'catch-all' must equal the fixed value")
	exempt.Spec.Type = "Limited"
	errortest.Contain(t, validatePriorityLevel(exempt), "spec of 'exempt' except the 'spec.exempt' field must equal the fixed value")
}
