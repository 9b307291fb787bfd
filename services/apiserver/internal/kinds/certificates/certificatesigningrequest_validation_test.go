package certificates

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

// badSubdomain is the error message for a part of a name.
const badSubdomain = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`

func newRequest(t testing.TB) *csr {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	return &csr{
		ObjectMeta: metav1.ObjectMeta{Name: "any:name", ResourceVersion: "1"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: "example.com/signer", Usages: []certificatesv1.KeyUsage{"client auth", "any"},
		},
	}
}

func TestCertificateSigningRequest(t *testing.T) {
	const label = `a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`
	for name, tc := range map[string]struct {
		change func(*csr)
		want   []string
	}{
		"fine":              {change: func(*csr) {}},
		"ten minutes":       {change: func(c *csr) { c.Spec.ExpirationSeconds = new(int32(600)) }},
		"less":              {change: func(c *csr) { c.Spec.ExpirationSeconds = new(int32(599)) }, want: []string{"spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 seconds (10 minutes)"}},
		"no request":        {change: func(c *csr) { c.Spec.Request = nil }, want: []string{"spec.request: Invalid value: null: PEM block type must be CERTIFICATE REQUEST"}},
		"no usage":          {change: func(c *csr) { c.Spec.Usages = nil }, want: []string{"spec.usages: Required value"}},
		"a usage twice":     {change: func(c *csr) { c.Spec.Usages = append(c.Spec.Usages, "any") }, want: []string{`spec.usages[2]: Duplicate value: "any"`}},
		"no signer":         {change: func(c *csr) { c.Spec.SignerName = "" }, want: []string{"spec.signerName: Required value"}},
		"the legacy signer": {change: func(c *csr) { c.Spec.SignerName = legacySigner }, want: []string{`spec.signerName: Invalid value: "kubernetes.io/legacy-unknown": the legacy signerName is not allowed via this API version`}},
		"no domain":         {change: func(c *csr) { c.Spec.SignerName = "signer" }, want: []string{`spec.signerName: Invalid value: "signer": must be a fully qualified domain and path of the form 'example.com/signer-name'`}},
		"a short domain":    {change: func(c *csr) { c.Spec.SignerName = "com/signer" }, want: []string{`spec.signerName: Invalid value: "com": should be a domain with at least two segments separated by dots`}},
		"a bad domain":      {change: func(c *csr) { c.Spec.SignerName = "A.com/signer" }, want: []string{`spec.signerName: Invalid value: "A.com": validating label "A": ` + label}},
		"a bad path":        {change: func(c *csr) { c.Spec.SignerName = "a.com/-.b" }, want: []string{`spec.signerName: Invalid value: "-.b": validating label "-": ` + badSubdomain}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newRequest(t)
			tc.change(c)
			errortest.Exactly(t, validateCertificateSigningRequest(c), tc.want...)
		})
	}
	c := newRequest(t)
	c.Spec.Usages = []certificatesv1.KeyUsage{"fly"}
	errortest.Contain(t, validateCertificateSigningRequest(c), `spec.usages[0]: Unsupported value: "fly": supported values: "any", "cert sign", "client auth", "code signing", "content commitment"`)
	c = newRequest(t)
	block, _ := pem.Decode(c.Spec.Request)
	block.Bytes[len(block.Bytes)-1] ^= 1
	c.Spec.Request = pem.EncodeToMemory(block)
	if errs := validateCertificateSigningRequest(c); len(errs) != 1 || errs[0].Field != "spec.request" {
		t.Errorf("forged signature: got %v", errs)
	}
	c.Spec.SignerName = "example.com/" + strings.Repeat("a", 600)
	errortest.Contain(t, validateCertificateSigningRequest(c), "spec.signerName: Too long: may not be more than 571 bytes")
}

func TestCertificateSigningRequestUpdates(t *testing.T) {
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1)}, &x509.Certificate{SerialNumber: big.NewInt(1)}, publicKey(t), privateKey(t))
	if err != nil {
		t.Fatal(err)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	condition := func(kind certificatesv1.RequestConditionType, status corev1.ConditionStatus) certificatesv1.CertificateSigningRequestCondition {
		return certificatesv1.CertificateSigningRequestCondition{Type: kind, Status: status}
	}
	approved, denied, failed := condition("Approved", "True"), condition("Denied", "True"), condition("Failed", "True")
	type status = certificatesv1.CertificateSigningRequestStatus
	type conditions = []certificatesv1.CertificateSigningRequestCondition
	for name, tc := range map[string]struct {
		old, now                 status
		update, status, approval []string
	}{
		"approval": {
			now:    status{Conditions: conditions{approved}},
			update: []string{`status.conditions: Forbidden: updates may not add a condition of type "Approved"`},
			status: []string{`status.conditions: Forbidden: updates may not add a condition of type "Approved"`},
		},
		"withdrawal": {
			old:      status{Conditions: conditions{denied}},
			update:   []string{`status.conditions: Forbidden: updates may not remove a condition of type "Denied"`},
			status:   []string{`status.conditions: Forbidden: updates may not remove a condition of type "Denied"`},
			approval: []string{`status.conditions: Forbidden: updates may not remove a condition of type "Denied"`},
		},
		"failure":         {now: status{Conditions: conditions{failed}}},
		"any other state": {now: status{Conditions: conditions{condition("Odd", "Unknown")}}},
		"a certificate": {
			now:      status{Certificate: certificate},
			update:   []string{"status.certificate: Forbidden: updates may not set certificate content"},
			approval: []string{"status.certificate: Forbidden: updates may not set certificate content"},
		},
		"another certificate": {
			old: status{Certificate: certificate}, now: status{Certificate: append(certificate, certificate...)},
			update:   []string{"status.certificate: Forbidden: updates may not set certificate content"},
			status:   []string{"status.certificate: Forbidden: updates may not modify existing certificate content"},
			approval: []string{"status.certificate: Forbidden: updates may not set certificate content"},
		},
		"rubbish": {
			now:      status{Certificate: []byte("x")},
			update:   []string{`status.certificate: Invalid value: "<certificate data>": must contain at least one CERTIFICATE PEM block`, "status.certificate: Forbidden: updates may not set certificate content"},
			status:   []string{`status.certificate: Invalid value: "<certificate data>": must contain at least one CERTIFICATE PEM block`},
			approval: []string{`status.certificate: Invalid value: "<certificate data>": must contain at least one CERTIFICATE PEM block`, "status.certificate: Forbidden: updates may not set certificate content"},
		},
		"both kept": {old: status{Conditions: conditions{approved, denied}}, now: status{Conditions: conditions{approved, denied}}},
	} {
		t.Run(name, func(t *testing.T) {
			old := newRequest(t)
			old.Status = tc.old
			now := old.DeepCopy()
			now.Status = tc.now
			errortest.Exactly(t, validateCertificateSigningRequestUpdate(now, old), tc.update...)
			errortest.Exactly(t, validateCertificateSigningRequestStatus(now, old), tc.status...)
			errortest.Exactly(t, validateCertificateSigningRequestApproval(now, old), tc.approval...)
		})
	}
	for name, tc := range map[string]struct {
		conditions conditions
		want       []string
	}{
		"both": {conditions{approved, denied}, []string{
			"status.conditions: Invalid value: \"{conditions[{\\\"type\\\": \\\"Approved\\\"}], conditions[{\\\"type\\\": \\\"Denied\\\"}]}\": must specify at most one of: `conditions[{\"type\": \"Approved\"}]`, `conditions[{\"type\": \"Denied\"}]`",
		}},
		"twice":     {conditions{failed, failed}, []string{`status.conditions[1].type: Duplicate value: "Failed"`}},
		"no type":   {conditions{condition("", "True")}, []string{"status.conditions[0].type: Required value"}},
		"no status": {conditions{condition("Approved", "")}, []string{"status.conditions[0].status: Required value"}},
		"not so":    {conditions{condition("Approved", "False")}, []string{`status.conditions[0].status: Unsupported value: "False": supported values: "True"`}},
		"odd":       {conditions{condition("Odd", "Maybe")}, []string{`status.conditions[0].status: Unsupported value: "Maybe": supported values: "False", "True", "Unknown"`}},
	} {
		t.Run(name, func(t *testing.T) {
			old := newRequest(t)
			now := old.DeepCopy()
			now.Status.Conditions = tc.conditions
			errortest.Exactly(t, validateCertificateSigningRequestApproval(now, old), tc.want...)
		})
	}
	old := newRequest(t)
	old.Status.Conditions = conditions{approved}
	now := old.DeepCopy()
	now.Status.Conditions[0].Message = "changed"
	errortest.Exactly(t, validateCertificateSigningRequestApproval(now, old))
	errortest.Contain(t, validateCertificateSigningRequestStatus(now, old), `status.conditions: Forbidden: updates may not modify a condition of type "Approved"`)
}

func TestCertificates(t *testing.T) {
	for name, tc := range map[string]struct{ data, want string }{
		"nothing":        {"", ""},
		"no PEM":         {"x", "must contain at least one CERTIFICATE PEM block"},
		"another block":  {"-----BEGIN X-----\n-----END X-----\n", `only CERTIFICATE PEM blocks are allowed, found "X"`},
		"headers":        {"-----BEGIN CERTIFICATE-----\na: b\n\n-----END CERTIFICATE-----\n", "no PEM block headers are permitted"},
		"an empty block": {"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n", "found CERTIFICATE PEM block containing 0 certificates"},
	} {
		got := ""
		if err := certificates([]byte(tc.data)); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

func privateKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func publicKey(t testing.TB) *ecdsa.PublicKey { return &privateKey(t).PublicKey }

// FuzzRequests validates arbitrary data as certificate requests and certificates.
func FuzzRequests(f *testing.F) {
	f.Add(newRequest(f).Spec.Request)
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := newRequest(t)
		c.Spec.Request, c.Spec.SignerName = data, string(data)
		now := c.DeepCopy()
		now.Status.Certificate = data
		if errs := validateCertificateSigningRequest(c); len(errs) == 0 {
			t.Errorf("a PEM block was accepted as a signer's name: %q", data)
		}
		validateCertificateSigningRequestStatus(now, c)
	})
}
