package certificates

import (
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// PodCertificateRequest is not full: it does not check whether the writer of a certificate may sign
// for the signer.
func PodCertificateRequest() *kinds.Definition {
	type request = *certificatesv1.PodCertificateRequest
	return kinds.Of[request]{
		Columns:  podCertificateRequestColumns(),
		Default:  defaultPodCertificateRequest,
		Create:   func(r request) { r.Status = certificatesv1.PodCertificateRequestStatus{} },
		Validate: validatePodCertificateRequest,
		Update: kinds.ChangeOf[request]{
			Prepare:  func(r, old request) { r.Status = *old.Status.DeepCopy() },
			Validate: validatePodCertificateRequestUpdate,
		},
		Subresources: map[string]kinds.ChangeOf[request]{"status": {
			Prepare: func(r, old request) {
				r.Spec = *old.Spec.DeepCopy()
				kinds.KeepMetadata(r, old)
			},
			Validate: func(r, old request) field.ErrorList {
				return validatePodCertificateRequestStatus(r, old, time.Now())
			},
		}},
		ConditionalUpdate: true,
		FieldLabels:       []string{"spec.nodeName", "spec.podName", "spec.signerName"},
		Fields: func(r request) fields.Set {
			return fields.Set{"spec.nodeName": string(r.Spec.NodeName), "spec.podName": r.Spec.PodName, "spec.signerName": r.Spec.SignerName}
		},
	}.Definition()
}

// certificateSeconds is the longest life of a certificate, unless the request states it: a day.
const certificateSeconds = 24 * 60 * 60

// defaultPodCertificateRequest sets the defaults of a pod's request for a certificate.
func defaultPodCertificateRequest(r *certificatesv1.PodCertificateRequest) {
	kinds.Fill(&r.Spec.MaxExpirationSeconds, int32(certificateSeconds))
}

func podCertificateRequestColumns() *columns.Layout {
	doc := certificatesv1.PodCertificateRequestSpec{}.SwaggerDoc()
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(),
		columns.Text("PodName", doc["podName"]),
		columns.Text("ServiceAccountName", doc["serviceAccountName"]),
		columns.Text("NodeName", doc["nodeName"]),
		columns.Text("SignerName", doc["signerName"]),
		columns.Text("State", "Is the request Pending, Issued, Denied, or Failed?"),
		columns.Text("UnverifiedUserAnnotations", doc["unverifiedUserAnnotations"]),
	}, func(r *certificatesv1.PodCertificateRequest, _ time.Time) []any {
		state := "Pending"
		for _, condition := range r.Status.Conditions {
			switch condition.Type {
			case certificatesv1.PodCertificateRequestConditionTypeIssued, certificatesv1.PodCertificateRequestConditionTypeDenied,
				certificatesv1.PodCertificateRequestConditionTypeFailed:
				state = condition.Type
			}
		}
		return []any{r.Name, r.Spec.PodName, r.Spec.ServiceAccountName, string(r.Spec.NodeName), r.Spec.SignerName, state, labels.FormatLabels(r.Spec.UnverifiedUserAnnotations)}
	})
}
