package flowcontrol

import (
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// PriorityLevel defines the kind PriorityLevel.
func PriorityLevel() *kinds.Definition {
	type level = *flowcontrolv1.PriorityLevelConfiguration
	specStatus := kinds.SpecStatusOf(func(p level) (*flowcontrolv1.PriorityLevelConfigurationSpec, *flowcontrolv1.PriorityLevelConfigurationStatus) {
		return &p.Spec, &p.Status
	})
	return kinds.Of[level]{
		Columns:  priorityLevelConfigurationColumns(),
		Level:    kinds.Full,
		Default:  defaultPriorityLevel,
		Create:   specStatus.Begin,
		Validate: validatePriorityLevel,
		Update:   kinds.ChangeOf[level]{Prepare: specStatus.KeepStatus, Validate: validatePriorityLevelUpdate},
		Subresources: map[string]kinds.ChangeOf[level]{"status": {
			Prepare: func(p, old level) {
				specStatus.KeepSpec(p, old)
				kinds.KeepAllMetadata(p, old)
			},
			Validate: validatePriorityLevelStatus,
		}},
	}.Definition()
}

// Kubernetes' defaults of a limited priority level.
const (
	concurrencyShares = 30
	queues            = 64
	handSize          = 8
	queueLengthLimit  = 50
)

// defaultPriorityLevel sets the defaults of a priority level.
func defaultPriorityLevel(p *flowcontrolv1.PriorityLevelConfiguration) {
	if e := p.Spec.Exempt; e != nil {
		kinds.Fill(&e.NominalConcurrencyShares, int32(0))
		kinds.Fill(&e.LendablePercent, int32(0))
	}
	l := p.Spec.Limited
	if l == nil {
		return
	}
	kinds.Fill(&l.NominalConcurrencyShares, int32(concurrencyShares))
	kinds.Fill(&l.LendablePercent, int32(0))
	if q := l.LimitResponse.Queuing; q != nil {
		kinds.FillNumber(&q.HandSize, handSize)
		kinds.FillNumber(&q.Queues, queues)
		kinds.FillNumber(&q.QueueLengthLimit, queueLengthLimit)
	}
}

func priorityLevelConfigurationColumns() *columns.Layout {
	queuing := flowcontrolv1.QueuingConfiguration{}.SwaggerDoc()
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(),
		columns.Text("Type", flowcontrolv1.PriorityLevelConfigurationSpec{}.SwaggerDoc()["type"]),
		columns.Text("NominalConcurrencyShares", flowcontrolv1.LimitedPriorityLevelConfiguration{}.SwaggerDoc()["nominalConcurrencyShares"]),
		columns.Text("Queues", queuing["queues"]),
		columns.Text("HandSize", queuing["handSize"]),
		columns.Text("QueueLengthLimit", queuing["queueLengthLimit"]),
		columns.Age(),
	}, func(p *flowcontrolv1.PriorityLevelConfiguration, now time.Time) []any {
		cells := []any{p.Name, string(p.Spec.Type), columns.None, columns.None, columns.None, columns.None, columns.AgeOf(p, now)}
		limited := p.Spec.Limited
		if limited == nil {
			return cells
		}
		if limited.NominalConcurrencyShares != nil {
			cells[2] = int64(*limited.NominalConcurrencyShares)
		}
		if q := limited.LimitResponse.Queuing; q != nil {
			cells[3], cells[4], cells[5] = int64(q.Queues), int64(q.HandSize), int64(q.QueueLengthLimit)
		}
		return cells
	})
}
