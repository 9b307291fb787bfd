package certificates

import (
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

func TestClusterTrustBundleAttest(t *testing.T) {
	bundle := func(signer string, change ...func(*certificatesv1.ClusterTrustBundle)) *certificatesv1.ClusterTrustBundle {
		b := &certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: "x"}}
		for _, c := range change {
			c(b)
		}
		return b
	}
	may := func(name string) func(authz.Attributes) bool {
		return func(a authz.Attributes) bool {
			return a.Verb == "attest" && a.Group == "certificates.k8s.io" && a.Resource == "signers" && a.Name == name
		}
	}
	trust := func(b *certificatesv1.ClusterTrustBundle) { b.Spec.TrustBundle = "y" }
	labelled := func(b *certificatesv1.ClusterTrustBundle) { b.Labels = map[string]string{"a": "b"} }
	collected := func(b *certificatesv1.ClusterTrustBundle) {
		b.Finalizers, b.OwnerReferences = []string{"a.io/f"}, []metav1.OwnerReference{{Name: "o"}}
		b.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
	}
	update := func(now, old *certificatesv1.ClusterTrustBundle) *admission.Request {
		return &admission.Request{Verb: admission.Update, Object: now, Old: old}
	}
	const a = "a.io/x"
	const refused = `clustertrustbundles.certificates.k8s.io "b" is forbidden: user not permitted to attest for signerName "a.io/x"`
	for _, tc := range []struct {
		name string
		req  *admission.Request
		may  func(authz.Attributes) bool
		want string
	}{
		{"without a signer", &admission.Request{Object: bundle("")}, nil, ""},
		{"of a signer", &admission.Request{Object: bundle(a)}, nil, refused},
		{"may attest", &admission.Request{Object: bundle(a)}, may(a), ""},
		{"may attest for the domain", &admission.Request{Object: bundle(a)}, may("a.io/*"), ""},
		{"may attest for another", &admission.Request{Object: bundle(a)}, may("b.io/x"), refused},
		{"another bundle", update(bundle(a, trust), bundle(a)), nil, refused},
		{"other labels", update(bundle(a, labelled), bundle(a)), nil, refused},
		{"may update", update(bundle(a, trust), bundle(a)), may(a), ""},
		{"garbage collection", update(bundle(a, collected), bundle(a)), nil, ""},
		{"delete", &admission.Request{Verb: admission.Delete, Old: bundle(a)}, nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := admissiontest.New().Admit(t, tc.req, Attest(&admissiontest.Authorizer{Allow: tc.may}))
			admissiontest.Refused(t, err, tc.want)
		})
	}
}
