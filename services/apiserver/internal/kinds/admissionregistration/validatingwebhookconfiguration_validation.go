package admissionregistration

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validatingWebhooks validates validating webhooks.
func (v validator) validatingWebhooks(c *admissionregistrationv1.ValidatingWebhookConfiguration) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&c.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	if errs := validateExtent(field.NewPath("webhooks"), expressionsOfWebhooks(c.Webhooks), nil); len(errs) > 0 {
		return errs
	}
	return append(errs, v.webhooks(c.Webhooks, nil, nil, lenience{})...)
}

// validatingWebhooksUpdate validates an update of validating webhooks.
func (v validator) validatingWebhooksUpdate(c, old *admissionregistrationv1.ValidatingWebhookConfiguration) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&c.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	if errs := validateExtent(field.NewPath("webhooks"), expressionsOfWebhooks(c.Webhooks), expressionsOfWebhooks(old.Webhooks)); len(errs) > 0 {
		return errs
	}
	return append(errs, v.webhooks(c.Webhooks, old.Webhooks, nil, lenienceOf(c.Webhooks, old.Webhooks))...)
}
