package admissionregistration

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// mutatingWebhooks validates mutating webhooks.
func (v validator) mutatingWebhooks(c *admissionregistrationv1.MutatingWebhookConfiguration) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&c.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	list, policies := common(c.Webhooks)
	if errs := validateExtent(field.NewPath("webhooks"), expressionsOfWebhooks(list), nil); len(errs) > 0 {
		return errs
	}
	return append(errs, v.webhooks(list, nil, policies, lenience{})...)
}

// mutatingWebhooksUpdate validates an update of mutating webhooks.
func (v validator) mutatingWebhooksUpdate(c, old *admissionregistrationv1.MutatingWebhookConfiguration) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&c.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	list, policies := common(c.Webhooks)
	before, _ := common(old.Webhooks)
	if errs := validateExtent(field.NewPath("webhooks"), expressionsOfWebhooks(list), expressionsOfWebhooks(before)); len(errs) > 0 {
		return errs
	}
	return append(errs, v.webhooks(list, before, policies, lenienceOf(list, before))...)
}

func common(list []admissionregistrationv1.MutatingWebhook) ([]webhook, []*admissionregistrationv1.ReinvocationPolicyType) {
	var all []webhook
	var policies []*admissionregistrationv1.ReinvocationPolicyType
	for _, h := range list {
		all = append(all, webhook{
			Name: h.Name, ClientConfig: h.ClientConfig, Rules: h.Rules, FailurePolicy: h.FailurePolicy, MatchPolicy: h.MatchPolicy,
			NamespaceSelector: h.NamespaceSelector, ObjectSelector: h.ObjectSelector, SideEffects: h.SideEffects,
			TimeoutSeconds: h.TimeoutSeconds, AdmissionReviewVersions: h.AdmissionReviewVersions, MatchConditions: h.MatchConditions,
		})
		policies = append(policies, h.ReinvocationPolicy)
	}
	return all, policies
}
