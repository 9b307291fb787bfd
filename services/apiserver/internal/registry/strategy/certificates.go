package strategy

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func certificateSigningRequest() *Strategy {
	type csr = *certificatesv1.CertificateSigningRequest
	return of[csr]{
		Create: func(c csr) { c.Status = certificatesv1.CertificateSigningRequestStatus{} },
		Validate: func(c csr) field.ErrorList {
			return apivalidation.ValidateObjectMeta(&c.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
		},
		Update: change[csr]{
			Prepare: func(c, old csr) { c.Spec, c.Status = *old.Spec.DeepCopy(), *old.Status.DeepCopy() },
			Validate: func(c, _ csr) field.ErrorList {
				return apivalidation.ValidateObjectMeta(&c.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
			},
		},
		Subresources: map[string]change[csr]{
			"status":   {Prepare: func(c, old csr) { c.Spec = *old.Spec.DeepCopy() }},
			"approval": {Prepare: func(c, old csr) { c.Spec = *old.Spec.DeepCopy() }},
		},
		FieldLabels: []string{"spec.signerName"},
		Fields:      func(c csr) fields.Set { return fields.Set{"spec.signerName": c.Spec.SignerName} },
	}.strategy()
}
