package defaults

import (
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	nodev1 "k8s.io/api/node/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// Kubernetes' defaults for these kinds.
const (
	httpsPort          = 443
	matchingPrecedence = 1000
	concurrencyShares  = 30
	queuesHandSize     = 8
	queues             = 64
	queueLengthLimit   = 50
)

// RuntimeClass sets the defaults of a runtime class.
func RuntimeClass(c *nodev1.RuntimeClass) {
	if c.Overhead != nil {
		roundUp(c.Overhead.PodFixed)
	}
}

// APIService sets the defaults of an API service.
func APIService(s *apiregistrationv1.APIService) {
	if s.Spec.Service != nil {
		set(&s.Spec.Service.Port, int32(httpsPort))
	}
}

// FlowSchema sets the defaults of a flow schema.
func FlowSchema(s *flowcontrolv1.FlowSchema) {
	setNumber(&s.Spec.MatchingPrecedence, matchingPrecedence)
}

// PriorityLevel sets the defaults of a priority level.
func PriorityLevel(p *flowcontrolv1.PriorityLevelConfiguration) {
	if e := p.Spec.Exempt; e != nil {
		set(&e.NominalConcurrencyShares, int32(0))
		set(&e.LendablePercent, int32(0))
	}
	l := p.Spec.Limited
	if l == nil {
		return
	}
	set(&l.NominalConcurrencyShares, int32(concurrencyShares))
	set(&l.LendablePercent, int32(0))
	if q := l.LimitResponse.Queuing; q != nil {
		setNumber(&q.HandSize, queuesHandSize)
		setNumber(&q.Queues, queues)
		setNumber(&q.QueueLengthLimit, queueLengthLimit)
	}
}
