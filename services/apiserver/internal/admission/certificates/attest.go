package certificates

import (
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

// Attest returns the plugin ClusterTrustBundleAttest. It lets a user write a trust bundle of a signer
// only with the right to attest for that signer.
func Attest(authorizer authz.Authorizer) admission.Plugin {
	return admission.Plugin{Validate: func(ctx context.Context, req *admission.Request) error {
		bundle, ok := req.Object.(*certificatesv1.ClusterTrustBundle)
		if !ok || req.Verb == admission.Delete || bundle.Spec.SignerName == "" {
			return nil
		}
		if old, ok := req.Old.(*certificatesv1.ClusterTrustBundle); ok && req.Verb == admission.Update && onlyCollected(bundle, old) {
			return nil
		}
		if signer := bundle.Spec.SignerName; !maySigner(ctx, authorizer, "attest", signer) {
			return admission.Forbidden(req, fmt.Errorf("user not permitted to attest for signerName %q", signer))
		}
		return nil
	}}
}

// onlyCollected reports whether an update changes nothing but what the garbage collector changes.
func onlyCollected(bundle, old *certificatesv1.ClusterTrustBundle) bool {
	same := bundle.DeepCopy()
	same.OwnerReferences, same.Finalizers, same.ManagedFields = old.OwnerReferences, old.Finalizers, old.ManagedFields
	return equality.Semantic.DeepEqual(same, old)
}
