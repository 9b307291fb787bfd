package strategy

import (
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/defaults"
	validation "github.com/garboard/garboard/services/apiserver/internal/kinds/validation/certificates"
)

func clusterTrustBundle() *kinds.Definition {
	type bundle = *certificatesv1.ClusterTrustBundle
	return of[bundle]{
		Level:             kinds.Full,
		Validate:          validation.ClusterTrustBundle,
		Update:            change[bundle]{Validate: validation.ClusterTrustBundleUpdate},
		ConditionalUpdate: true,
		FieldLabels:       []string{"spec.signerName"},
		Fields:            func(b bundle) fields.Set { return fields.Set{"spec.signerName": b.Spec.SignerName} },
	}.strategy()
}

// podCertificateRequest is not full: it does not check whether the writer of a certificate may sign
// for the signer.
func podCertificateRequest() *kinds.Definition {
	type request = *certificatesv1.PodCertificateRequest
	return of[request]{
		Default:  defaults.PodCertificateRequest,
		Create:   func(r request) { r.Status = certificatesv1.PodCertificateRequestStatus{} },
		Validate: validation.PodCertificateRequest,
		Update: change[request]{
			Prepare:  func(r, old request) { r.Status = *old.Status.DeepCopy() },
			Validate: validation.PodCertificateRequestUpdate,
		},
		Subresources: map[string]change[request]{"status": {
			Prepare: func(r, old request) {
				r.Spec = *old.Spec.DeepCopy()
				keepMetadata(r, old)
				stampOutcome(r, old)
			},
			Validate: func(r, old request) field.ErrorList {
				return validation.PodCertificateRequestStatus(r, old, time.Now())
			},
		}},
		ConditionalUpdate: true,
		FieldLabels:       []string{"spec.nodeName", "spec.podName", "spec.signerName"},
		Fields: func(r request) fields.Set {
			return fields.Set{"spec.nodeName": string(r.Spec.NodeName), "spec.podName": r.Spec.PodName, "spec.signerName": r.Spec.SignerName}
		},
	}.strategy()
}

// stampOutcome keeps the conditions that a request has, and sets the missing times of new ones.
func stampOutcome(r, old *certificatesv1.PodCertificateRequest) {
	for i := range r.Status.Conditions {
		condition := &r.Status.Conditions[i]
		for _, before := range old.Status.Conditions {
			if before.Type == condition.Type {
				*condition = before
			}
		}
		if condition.LastTransitionTime.IsZero() {
			condition.LastTransitionTime = metav1.Now().Rfc3339Copy()
		}
	}
}
