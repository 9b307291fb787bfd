package strategy

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/defaults"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation"
)

func resourceQuota() *kinds.Definition {
	return of[*corev1.ResourceQuota]{
		Level:    kinds.Full,
		Default:  defaults.ResourceQuota,
		Create:   func(q *corev1.ResourceQuota) { q.Status = corev1.ResourceQuotaStatus{} },
		Validate: validation.ResourceQuota,
		Update: change[*corev1.ResourceQuota]{
			Prepare:  func(q, old *corev1.ResourceQuota) { q.Status = *old.Status.DeepCopy() },
			Validate: validation.ResourceQuotaUpdate,
		},
		Subresources: map[string]change[*corev1.ResourceQuota]{"status": {
			Prepare:  func(q, old *corev1.ResourceQuota) { q.Spec = *old.Spec.DeepCopy() },
			Validate: validation.ResourceQuotaStatus,
		}},
		ReturnDeleted: true,
	}.strategy()
}

func limitRange() *kinds.Definition {
	return of[*corev1.LimitRange]{
		Level:   kinds.Full,
		Default: defaults.LimitRange,
		Create: func(l *corev1.LimitRange) {
			if l.Name == "" {
				l.Name = string(uuid.NewUUID())
			}
		},
		Validate:            validation.LimitRange,
		Update:              change[*corev1.LimitRange]{Validate: validation.LimitRangeUpdate},
		AllowCreateOnUpdate: true,
	}.strategy()
}

func podDisruptionBudget() *kinds.Definition {
	specStatus := specStatusOf(func(b *policyv1.PodDisruptionBudget) (*policyv1.PodDisruptionBudgetSpec, *policyv1.PodDisruptionBudgetStatus) {
		return &b.Spec, &b.Status
	})
	return of[*policyv1.PodDisruptionBudget]{
		Level:    kinds.Full,
		Create:   specStatus.begin,
		Validate: validation.PodDisruptionBudget,
		Update: change[*policyv1.PodDisruptionBudget]{
			Prepare: specStatus.keepStatus, Validate: validation.PodDisruptionBudgetUpdate,
		},
		Subresources: map[string]change[*policyv1.PodDisruptionBudget]{"status": {
			Prepare: specStatus.keepSpec, Validate: validation.PodDisruptionBudgetStatus,
		}},
		ConditionalUpdate: true,
	}.strategy()
}

func priorityClass() *kinds.Definition {
	return of[*schedulingv1.PriorityClass]{
		Level:    kinds.Full,
		Default:  defaults.PriorityClass,
		Create:   func(c *schedulingv1.PriorityClass) { c.Generation = 1 },
		Validate: validation.PriorityClass,
		Update:   change[*schedulingv1.PriorityClass]{Validate: validation.PriorityClassUpdate},
	}.strategy()
}
