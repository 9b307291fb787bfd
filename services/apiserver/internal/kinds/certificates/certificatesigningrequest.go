package certificates

import (
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

type signingRequest = *certificatesv1.CertificateSigningRequest

// CertificateSigningRequest defines the kind CertificateSigningRequest.
func CertificateSigningRequest() *kinds.Definition {
	return kinds.Of[signingRequest]{
		Columns: certificateSigningRequestColumns(),
		Level:   kinds.Full,
		Create: func(c signingRequest) {
			c.Spec.Username, c.Spec.UID, c.Spec.Groups, c.Spec.Extra = "", "", nil, nil
			c.Status = certificatesv1.CertificateSigningRequestStatus{}
		},
		Author:   requester,
		Validate: validateCertificateSigningRequest,
		Update: kinds.ChangeOf[signingRequest]{
			Prepare:  func(c, old signingRequest) { c.Spec, c.Status = *old.Spec.DeepCopy(), *old.Status.DeepCopy() },
			Validate: validateCertificateSigningRequestUpdate,
		},
		Subresources: map[string]kinds.ChangeOf[signingRequest]{
			"status": {
				Prepare: func(c, old signingRequest) {
					c.Spec = *old.Spec.DeepCopy()
					keepConditions(c, old, certificatesv1.CertificateApproved)
					keepConditions(c, old, certificatesv1.CertificateDenied)
					stampConditions(c, old)
				},
				Validate: validateCertificateSigningRequestStatus,
			},
			"approval": {
				Prepare: func(c, old signingRequest) {
					c.Spec = *old.Spec.DeepCopy()
					c.Status.Certificate = old.DeepCopy().Status.Certificate
					stampConditions(c, old)
				},
				Validate: validateCertificateSigningRequestApproval,
			},
		},
		FieldLabels: []string{"spec.signerName"},
		Fields:      func(c signingRequest) fields.Set { return fields.Set{"spec.signerName": c.Spec.SignerName} },
	}.Definition()
}

// requester records in a request which user creates it: signers decide by that.
func requester(c signingRequest, user authn.User) {
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
func keepConditions(c, old signingRequest, kind certificatesv1.RequestConditionType) {
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
func stampConditions(c, old signingRequest) {
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

func certificateSigningRequestColumns() *columns.Layout {
	spec := certificatesv1.CertificateSigningRequestSpec{}.SwaggerDoc()
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(), columns.Age(),
		columns.Text("SignerName", spec["signerName"]),
		columns.Text("Requestor", spec["request"]),
		columns.Text("RequestedDuration", spec["expirationSeconds"]),
		columns.Text("Condition", certificatesv1.CertificateSigningRequestStatus{}.SwaggerDoc()["conditions"]),
	}, func(c *certificatesv1.CertificateSigningRequest, now time.Time) []any {
		wanted := columns.None
		if seconds := c.Spec.ExpirationSeconds; seconds != nil {
			wanted = duration.HumanDuration(time.Duration(*seconds) * time.Second)
		}
		return []any{c.Name, columns.AgeOf(c, now), columns.OrNone(c.Spec.SignerName), c.Spec.Username, wanted, requestCondition(c)}
	})
}

// requestCondition summarizes the state of a certificate signing request; a denial outweighs an
// approval.
func requestCondition(c *certificatesv1.CertificateSigningRequest) string {
	has := map[certificatesv1.RequestConditionType]bool{}
	for _, condition := range c.Status.Conditions {
		has[condition.Type] = true
	}
	state := "Pending"
	switch {
	case has[certificatesv1.CertificateDenied]:
		state = "Denied"
	case has[certificatesv1.CertificateApproved]:
		state = "Approved"
	}
	if has[certificatesv1.CertificateFailed] {
		state += ",Failed"
	}
	if len(c.Status.Certificate) > 0 {
		state += ",Issued"
	}
	return state
}
