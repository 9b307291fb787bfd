package admissionregistration

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateValidatingWebhooks validates validating webhooks.
func validateValidatingWebhooks(c *admissionregistrationv1.ValidatingWebhookConfiguration) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&c.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, webhooks(c.Webhooks, nil, lenience{})...)
}

// validateValidatingWebhooksUpdate validates an update of validating webhooks.
func validateValidatingWebhooksUpdate(c, old *admissionregistrationv1.ValidatingWebhookConfiguration) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&c.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	return append(errs, webhooks(c.Webhooks, nil, lenienceOf(c.Webhooks, old.Webhooks))...)
}
