package strategy

import (
	"fmt"
	"maps"
	"slices"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/defaults"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/cluster"
)

func runtimeClass() *kinds.Definition {
	return of[*nodev1.RuntimeClass]{
		Level:               kinds.Full,
		Default:             defaults.RuntimeClass,
		Validate:            cluster.RuntimeClass,
		Update:              change[*nodev1.RuntimeClass]{Validate: cluster.RuntimeClassUpdate},
		Warnings:            runtimeClassWarnings,
		AllowCreateOnUpdate: true,
		ConditionalUpdate:   true,
	}.strategy()
}

// runtimeClassWarnings warns about deprecated node labels.
func runtimeClassWarnings(c *nodev1.RuntimeClass) []string {
	if c.Scheduling == nil {
		return nil
	}
	var warnings []string
	for _, key := range slices.Sorted(maps.Keys(c.Scheduling.NodeSelector)) {
		if msg, ok := renamedLabels()[key]; ok {
			warnings = append(warnings, fmt.Sprintf("scheduling.nodeSelector: %s", msg))
		}
	}
	return warnings
}

func apiService() *kinds.Definition {
	type service = *apiregistrationv1.APIService
	return of[service]{
		Level:   kinds.Full,
		Default: defaults.APIService,
		Create: func(s service) {
			s.Status = apiregistrationv1.APIServiceStatus{}
			if s.Spec.Service == nil {
				s.Status.Conditions = []apiregistrationv1.APIServiceCondition{{
					Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionTrue, LastTransitionTime: metav1.Now().Rfc3339Copy(),
					Reason: "Local", Message: "Local APIServices are always available",
				}}
			}
		},
		Validate: cluster.APIService,
		Update: change[service]{
			Prepare:  func(s, old service) { s.Status = *old.Status.DeepCopy() },
			Validate: cluster.APIServiceUpdate,
		},
		Subresources: map[string]change[service]{"status": {
			Prepare: func(s, old service) {
				s.Spec = *old.Spec.DeepCopy()
				keepMetadata(s, old)
			},
			Validate: cluster.APIServiceStatus,
		}},
		ConditionalUpdate: true,
	}.strategy()
}

func flowSchema() *kinds.Definition {
	type schema = *flowcontrolv1.FlowSchema
	specStatus := specStatusOf(func(s schema) (*flowcontrolv1.FlowSchemaSpec, *flowcontrolv1.FlowSchemaStatus) {
		return &s.Spec, &s.Status
	})
	return of[schema]{
		Level:    kinds.Full,
		Default:  defaults.FlowSchema,
		Create:   specStatus.begin,
		Validate: cluster.FlowSchema,
		Update:   change[schema]{Prepare: specStatus.keepStatus, Validate: cluster.FlowSchemaUpdate},
		Subresources: map[string]change[schema]{"status": {
			Prepare: func(s, old schema) {
				specStatus.keepSpec(s, old)
				keepMetadata(s, old)
			},
			Validate: cluster.FlowSchemaStatus,
		}},
	}.strategy()
}

func priorityLevel() *kinds.Definition {
	type level = *flowcontrolv1.PriorityLevelConfiguration
	specStatus := specStatusOf(func(p level) (*flowcontrolv1.PriorityLevelConfigurationSpec, *flowcontrolv1.PriorityLevelConfigurationStatus) {
		return &p.Spec, &p.Status
	})
	return of[level]{
		Level:    kinds.Full,
		Default:  defaults.PriorityLevel,
		Create:   specStatus.begin,
		Validate: cluster.PriorityLevel,
		Update:   change[level]{Prepare: specStatus.keepStatus, Validate: cluster.PriorityLevelUpdate},
		Subresources: map[string]change[level]{"status": {
			Prepare: func(p, old level) {
				specStatus.keepSpec(p, old)
				keepMetadata(p, old)
			},
			Validate: cluster.PriorityLevelStatus,
		}},
	}.strategy()
}
