package strategy

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func resourceQuota() *Strategy {
	return of[*corev1.ResourceQuota]{
		Create: func(q *corev1.ResourceQuota) { q.Status = corev1.ResourceQuotaStatus{} },
		Validate: func(q *corev1.ResourceQuota) field.ErrorList {
			return apivalidation.ValidateObjectMeta(&q.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
		},
		Update: change[*corev1.ResourceQuota]{
			Prepare: func(q, old *corev1.ResourceQuota) { q.Status = *old.Status.DeepCopy() },
			Validate: func(q, _ *corev1.ResourceQuota) field.ErrorList {
				return apivalidation.ValidateObjectMeta(&q.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
			},
		},
		Subresources: map[string]change[*corev1.ResourceQuota]{"status": {
			Prepare: func(q, old *corev1.ResourceQuota) { q.Spec = *old.Spec.DeepCopy() },
		}},
		AllowCreateOnUpdate: true,
	}.strategy()
}

func limitRange() *Strategy {
	return of[*corev1.LimitRange]{
		Validate: func(l *corev1.LimitRange) field.ErrorList {
			return apivalidation.ValidateObjectMeta(&l.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
		},
		Update: change[*corev1.LimitRange]{Validate: func(l, _ *corev1.LimitRange) field.ErrorList {
			return apivalidation.ValidateObjectMeta(&l.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
		}},
		AllowCreateOnUpdate: true,
	}.strategy()
}

func podDisruptionBudget() *Strategy {
	return of[*policyv1.PodDisruptionBudget]{
		Create: func(b *policyv1.PodDisruptionBudget) {
			b.Status = policyv1.PodDisruptionBudgetStatus{}
			b.Generation = 1
		},
		Validate: func(b *policyv1.PodDisruptionBudget) field.ErrorList {
			return apivalidation.ValidateObjectMeta(&b.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
		},
		Update: change[*policyv1.PodDisruptionBudget]{
			Prepare: func(b, old *policyv1.PodDisruptionBudget) {
				b.Status = *old.Status.DeepCopy()
				if !apiequality.Semantic.DeepEqual(b.Spec, old.Spec) {
					b.Generation = old.Generation + 1
				}
			},
			Validate: func(b, _ *policyv1.PodDisruptionBudget) field.ErrorList {
				return apivalidation.ValidateObjectMeta(&b.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
			},
		},
		Subresources: map[string]change[*policyv1.PodDisruptionBudget]{"status": {
			Prepare: func(b, old *policyv1.PodDisruptionBudget) { b.Spec = *old.Spec.DeepCopy() },
		}},
	}.strategy()
}

func priorityClass() *Strategy {
	return of[*schedulingv1.PriorityClass]{
		Create: func(c *schedulingv1.PriorityClass) { c.Generation = 1 },
		Validate: func(c *schedulingv1.PriorityClass) field.ErrorList {
			return apivalidation.ValidateObjectMeta(&c.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
		},
		Update: change[*schedulingv1.PriorityClass]{Validate: func(c, _ *schedulingv1.PriorityClass) field.ErrorList {
			return apivalidation.ValidateObjectMeta(&c.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
		}},
		AllowCreateOnUpdate: true,
	}.strategy()
}
