package strategy

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	validation "github.com/garboard/garboard/services/apiserver/internal/kinds/validation/certificates"
)

type csr = *certificatesv1.CertificateSigningRequest

func certificateSigningRequest() *kinds.Definition {
	return of[csr]{
		Level: kinds.Full,
		Create: func(c csr) {
			c.Spec.Username, c.Spec.UID, c.Spec.Groups, c.Spec.Extra = "", "", nil, nil
			c.Status = certificatesv1.CertificateSigningRequestStatus{}
		},
		Author:   requester,
		Validate: validation.CertificateSigningRequest,
		Update: change[csr]{
			Prepare:  func(c, old csr) { c.Spec, c.Status = *old.Spec.DeepCopy(), *old.Status.DeepCopy() },
			Validate: validation.CertificateSigningRequestUpdate,
		},
		Subresources: map[string]change[csr]{
			"status": {
				Prepare: func(c, old csr) {
					c.Spec = *old.Spec.DeepCopy()
					keepConditions(c, old, certificatesv1.CertificateApproved)
					keepConditions(c, old, certificatesv1.CertificateDenied)
					stampConditions(c, old)
				},
				Validate: validation.CertificateSigningRequestStatus,
			},
			"approval": {
				Prepare: func(c, old csr) {
					c.Spec = *old.Spec.DeepCopy()
					c.Status.Certificate = old.DeepCopy().Status.Certificate
					stampConditions(c, old)
				},
				Validate: validation.CertificateSigningRequestApproval,
			},
		},
		FieldLabels: []string{"spec.signerName"},
		Fields:      func(c csr) fields.Set { return fields.Set{"spec.signerName": c.Spec.SignerName} },
	}.strategy()
}

// requester records in a request which user creates it: signers decide by that.
func requester(c csr, user authn.User) {
	c.Spec.Username, c.Spec.UID, c.Spec.Groups = user.Name, user.UID, append([]string(nil), user.Groups...)
	for key, values := range user.Extra {
		if c.Spec.Extra == nil {
			c.Spec.Extra = map[string]certificatesv1.ExtraValue{}
		}
		c.Spec.Extra[key] = append(certificatesv1.ExtraValue(nil), values...)
	}
}

// keepConditions restores the old content of the conditions of one type. If their number has
// changed, validation rejects that.
func keepConditions(c, old csr, kind certificatesv1.RequestConditionType) {
	var before []certificatesv1.CertificateSigningRequestCondition
	for _, condition := range old.Status.Conditions {
		if condition.Type == kind {
			before = append(before, condition)
		}
	}
	var now []*certificatesv1.CertificateSigningRequestCondition
	for i := range c.Status.Conditions {
		if c.Status.Conditions[i].Type == kind {
			now = append(now, &c.Status.Conditions[i])
		}
	}
	if len(now) != len(before) {
		return
	}
	for i := range now {
		before[i].DeepCopyInto(now[i])
	}
}

// stampConditions sets the missing times of conditions: now, or the old transition time if the
// status is unchanged.
func stampConditions(c, old csr) {
	now := metav1.Now().Rfc3339Copy()
	for i := range c.Status.Conditions {
		condition := &c.Status.Conditions[i]
		if condition.LastUpdateTime.IsZero() {
			condition.LastUpdateTime = now
		}
		if !condition.LastTransitionTime.IsZero() {
			continue
		}
		condition.LastTransitionTime = now
		for _, before := range old.Status.Conditions {
			if before.Type == condition.Type && before.Status == condition.Status && !before.LastTransitionTime.IsZero() {
				condition.LastTransitionTime = before.LastTransitionTime
			}
		}
	}
}
