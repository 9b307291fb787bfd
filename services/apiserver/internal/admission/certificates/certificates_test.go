package certificates

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"testing"

	"go.uber.org/goleak"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func request(signer string, change ...func(*certificatesv1.CertificateSigningRequest)) *certificatesv1.CertificateSigningRequest {
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "csr"},
		Spec:       certificatesv1.CertificateSigningRequestSpec{SignerName: signer},
	}
	for _, c := range change {
		c(csr)
	}
	return csr
}

func TestCertificateApprovalAndSigning(t *testing.T) {
	may := func(verb, name string) func(authz.Attributes) bool {
		return func(a authz.Attributes) bool {
			return a.Verb == verb && a.Group == "certificates.k8s.io" && a.Resource == "signers" && a.Namespace == "" && a.Name == name
		}
	}
	issued := func(csr *certificatesv1.CertificateSigningRequest) { csr.Status.Certificate = []byte("x") }
	failed := func(csr *certificatesv1.CertificateSigningRequest) {
		csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateFailed}}
	}
	const a, b = "a.io/x", "b.io/x"
	for _, tc := range []struct {
		name string
		req  *admission.Request
		may  func(authz.Attributes) bool
		want string
	}{
		{"approve", &admission.Request{Verb: admission.Update, Subresource: "approval", Object: request(a), Old: request(a)}, nil, `certificatesigningrequests.certificates.k8s.io "csr" is forbidden: user not permitted to approve requests with signerName "a.io/x"`},
		{"may approve", &admission.Request{Verb: admission.Update, Subresource: "approval", Object: request(a), Old: request(a)}, may("approve", a), ""},
		{"may approve all of a domain", &admission.Request{Verb: admission.Update, Subresource: "approval", Object: request(a), Old: request(a)}, may("approve", "a.io/*"), ""},
		{"may approve the new signer", &admission.Request{Verb: admission.Update, Subresource: "approval", Object: request(b), Old: request(a)}, may("approve", b), `user not permitted to approve requests with signerName "a.io/x"`},
		{"may only sign", &admission.Request{Verb: admission.Update, Subresource: "approval", Object: request(a), Old: request(a)}, may("sign", a), `user not permitted to approve requests with signerName "a.io/x"`},
		{"sign", &admission.Request{Verb: admission.Update, Subresource: "status", Object: request(a, issued), Old: request(a)}, nil, `user not permitted to sign requests with signerName "a.io/x"`},
		{"fail", &admission.Request{Verb: admission.Update, Subresource: "status", Object: request(a, failed), Old: request(a)}, nil, `user not permitted to sign requests with signerName "a.io/x"`},
		{"may sign", &admission.Request{Verb: admission.Update, Subresource: "status", Object: request(a, issued), Old: request(a)}, may("sign", a), ""},
		{"may sign the new signer", &admission.Request{Verb: admission.Update, Subresource: "status", Object: request(b, issued), Old: request(a)}, may("sign", b), `user not permitted to sign requests with signerName "a.io/x"`},
		{"may approve but not sign", &admission.Request{Verb: admission.Update, Subresource: "approval", Object: request(a, failed), Old: request(a)}, may("approve", a), ""},
		{"may sign but not approve", &admission.Request{Verb: admission.Update, Subresource: "status", Object: request(a, failed), Old: request(a)}, may("sign", a), ""},
		{"a deletion of the approval", &admission.Request{Verb: admission.Delete, Subresource: "approval", Old: request(a)}, nil, ""},
		{"a creation of the status", &admission.Request{Verb: admission.Create, Subresource: "status", Object: request(a, issued), Old: request(a)}, nil, ""},
		{"the same status", &admission.Request{Verb: admission.Update, Subresource: "status", Object: request(a, issued), Old: request(a, issued)}, nil, ""},
		{"another update", &admission.Request{Verb: admission.Update, Object: request(a), Old: request(a)}, nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			authorizer := &admissiontest.Authorizer{Allow: tc.may}
			_, err := admissiontest.New().Admit(t, tc.req, Approval(authorizer), Signing(authorizer))
			admissiontest.Refused(t, err, tc.want)
		})
	}
}

func TestCertificateSubjectRestriction(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := func(groups ...string) func(*certificatesv1.CertificateSigningRequest) {
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "bob", Organization: groups}}, key)
		if err != nil {
			t.Fatal(err)
		}
		return func(csr *certificatesv1.CertificateSigningRequest) {
			csr.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
		}
	}
	const noRequest = "failed to parse CSR: PEM block type must be CERTIFICATE REQUEST"
	oddBlock := func(csr *certificatesv1.CertificateSigningRequest) {
		block, _ := pem.Decode(csr.Spec.Request)
		csr.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes})
	}
	empty := func(csr *certificatesv1.CertificateSigningRequest) {
		csr.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST"})
	}
	const client = certificatesv1.KubeAPIServerClientSignerName
	for _, tc := range []struct {
		name string
		req  *admission.Request
		want string
	}{
		{"another group", &admission.Request{Object: request(client, of("dev"))}, ""},
		{"masters", &admission.Request{Object: request(client, of("dev", "system:masters"))}, "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"},
		{"masters elsewhere", &admission.Request{Object: request("a.io/x", of("system:masters"))}, ""},
		{"no request", &admission.Request{Object: request(client)}, noRequest},
		{"another kind of block", &admission.Request{Object: request(client, of("dev"), oddBlock)}, noRequest},
		{"an empty block", &admission.Request{Object: request(client, empty)}, "failed to parse CSR: asn1: syntax error: sequence truncated"},
		{"an update", &admission.Request{Verb: admission.Update, Object: request(client, of("system:masters")), Old: request(client)}, ""},
		{"a subresource", &admission.Request{Subresource: "status", Object: request(client, of("system:masters"))}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := admissiontest.New().Admit(t, tc.req, SubjectRestriction())
			admissiontest.Refused(t, err, tc.want)
		})
	}
}
