package certificates

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func newKey(t testing.TB, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func stub(t testing.TB, key crypto.Signer) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func newPodRequest(t testing.TB, key crypto.Signer) *podRequest {
	t.Helper()
	return &podRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "ns", ResourceVersion: "1"},
		Spec: certificatesv1.PodCertificateRequestSpec{
			SignerName: "example.com/s", PodName: "p", PodUID: "1", ServiceAccountName: "sa", ServiceAccountUID: "2", NodeName: "n", NodeUID: "3",
			MaxExpirationSeconds: new(int32(7200)), StubPKCS10Request: stub(t, key),
		},
	}
}

func TestPodCertificateRequest(t *testing.T) {
	key := newKey(t, elliptic.P256())
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 129)
	for name, tc := range map[string]struct {
		change func(*podRequest)
		want   []string
	}{
		"fine":        {change: func(*podRequest) {}},
		"another key": {change: func(r *podRequest) { r.Spec.StubPKCS10Request = stub(t, edwards) }},
		"no signer":   {change: func(r *podRequest) { r.Spec.SignerName = "" }, want: []string{"spec.signerName: Required value"}},
		"annotations": {change: func(r *podRequest) {
			r.Spec.UnverifiedUserAnnotations = map[string]string{"a": "", "example.com/B": ""}
		}, want: []string{`spec.unverifiedUserAnnotations: Invalid value: "a": must be a domain-prefixed key (such as "acme.io/foo")`}},
		"large": {change: func(r *podRequest) {
			r.Spec.UnverifiedUserAnnotations = map[string]string{"a.b/c": strings.Repeat("x", 256<<10)}
		}, want: []string{"spec.unverifiedUserAnnotations: Too long: may not be more than 262144 bytes"}},
		"bad names":    {change: func(r *podRequest) { r.Spec.PodName, r.Spec.ServiceAccountName, r.Spec.NodeName = "A", "B", "C" }, want: []string{`spec.podName: Invalid value: "A": ` + badSubdomain, `spec.serviceAccountName: Invalid value: "B": ` + badSubdomain, `spec.nodeName: Invalid value: "C": ` + badSubdomain}},
		"no UIDs":      {change: func(r *podRequest) { r.Spec.PodUID, r.Spec.ServiceAccountUID, r.Spec.NodeUID = "", "", "" }, want: []string{`spec.podUID: Invalid value: "": must not be empty`, `spec.serviceAccountUID: Invalid value: "": must not be empty`, `spec.nodeUID: Invalid value: "": must not be empty`}},
		"long UIDs":    {change: func(r *podRequest) { r.Spec.PodUID = types.UID(long) }, want: []string{"spec.podUID: Too long: may not be more than 128 bytes"}},
		"no life":      {change: func(r *podRequest) { r.Spec.MaxExpirationSeconds = nil }, want: []string{"spec.maxExpirationSeconds: Required value: must be set"}},
		"a short life": {change: func(r *podRequest) { r.Spec.MaxExpirationSeconds = new(int32(3599)) }, want: []string{"spec.maxExpirationSeconds: Invalid value: 3599: must be in the range [3600, 7862400]"}},
		"a long life":  {change: func(r *podRequest) { r.Spec.MaxExpirationSeconds = new(int32(7862401)) }, want: []string{"spec.maxExpirationSeconds: Invalid value: 7862401: must be in the range [3600, 7862400]"}},
		"of Kubernetes": {change: func(r *podRequest) {
			r.Spec.SignerName = "a.kubernetes.io/s"
			r.Spec.MaxExpirationSeconds = new(int32(86401))
		}, want: []string{"spec.maxExpirationSeconds: Invalid value: 86401: must be in the range [3600, 86400]"}},
		"no request":     {change: func(r *podRequest) { r.Spec.StubPKCS10Request = nil }, want: []string{"spec: Invalid value: exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set"}},
		"an odd request": {change: func(r *podRequest) { r.Spec.StubPKCS10Request = []byte("x") }, want: []string{"spec.stubPKCS10Request: Invalid value: must be a valid PKCS#10 CSR"}},
		"a long request": {change: func(r *podRequest) { r.Spec.StubPKCS10Request = make([]byte, 10<<10+1) }, want: []string{"spec.stubPKCS10Request: Too long: may not be more than 10240 bytes"}},
		"a small curve":  {change: func(r *podRequest) { r.Spec.StubPKCS10Request = stub(t, newKey(t, elliptic.P224())) }, want: []string{`spec.stubPKCS10Request: Invalid value: "curve P-224": elliptic public keys must use curve P256, P384, or P521`}},
		"not signed": {change: func(r *podRequest) {
			r.Spec.StubPKCS10Request = bytes.Clone(r.Spec.StubPKCS10Request)
			r.Spec.StubPKCS10Request[len(r.Spec.StubPKCS10Request)-1] ^= 1
		}, want: []string{"spec.stubPKCS10Request: Invalid value: invalid signature"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newPodRequest(t, key)
			tc.change(r)
			errortest.Exactly(t, validatePodCertificateRequest(r), tc.want...)
		})
	}
	old := newPodRequest(t, key)
	changed := old.DeepCopy()
	changed.Spec.PodName = "other"
	errortest.Contain(t, validatePodCertificateRequestUpdate(changed, old), "spec: Invalid value: ", "field is immutable")
}

func TestPodCertificateRequestStatus(t *testing.T) {
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	key, another := newKey(t, elliptic.P256()), newKey(t, elliptic.P256())
	old := newPodRequest(t, key)
	condition := func(kind, status string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: "R", LastTransitionTime: metav1.NewTime(now)}
	}
	leaf := func(key crypto.Signer, change func(*x509.Certificate)) string {
		return signed(t, key, func(c *x509.Certificate) {
			c.IsCA, c.NotBefore, c.NotAfter = false, now, now.Add(2*time.Hour)
			change(c)
		})
	}
	same := func(*x509.Certificate) {}
	issue := func(chain string, change func(*certificatesv1.PodCertificateRequestStatus)) func(*podRequest) {
		return func(r *podRequest) {
			r.Status = certificatesv1.PodCertificateRequestStatus{
				Conditions: []metav1.Condition{condition("Issued", "True")}, CertificateChain: chain, NotBefore: new(metav1.NewTime(now)),
				NotAfter: new(metav1.NewTime(now.Add(2 * time.Hour))), BeginRefreshAt: new(metav1.NewTime(now.Add(time.Hour))),
			}
			change(&r.Status)
		}
	}
	keep := func(*certificatesv1.PodCertificateRequestStatus) {}
	for name, tc := range map[string]struct {
		change func(*podRequest)
		want   []string
	}{
		"nothing": {change: func(*podRequest) {}},
		"denied":  {change: func(r *podRequest) { r.Status.Conditions = []metav1.Condition{condition("Denied", "True")} }},
		"not yet": {change: func(r *podRequest) { r.Status.CertificateChain = "x" }, want: []string{`status: Invalid value: status is immutable unless transitioning to "Issued", "Denied", or "Failed"`}},
		"denied and issued": {change: func(r *podRequest) {
			r.Status.Conditions = []metav1.Condition{condition("Denied", "True"), condition("Issued", "True"), condition("Odd", "True")}
		}, want: []string{`status.conditions.[1].type: Invalid value: "Issued": There may be at most one condition with type "Issued", "Denied", or "Failed"`, `status.conditions.[2].type: Unsupported value: "Odd": supported values: "Issued", "Denied", "Failed"`}},
		"half denied": {change: func(r *podRequest) { r.Status.Conditions = []metav1.Condition{condition("Denied", "False")} }, want: []string{`status.conditions.[0].status: Unsupported value: "False": supported values: "True"`}},
		"failed with more": {change: func(r *podRequest) {
			r.Status.Conditions, r.Status.CertificateChain = []metav1.Condition{condition("Failed", "True")}, "x"
		}, want: []string{"status: Invalid value: non-condition status fields must be empty when denying or failing the PodCertificateRequest"}},
		"issued":         {change: issue(leaf(key, same), keep)},
		"of a chain":     {change: issue(leaf(key, same)+signed(t, another, same), keep)},
		"no certificate": {change: issue("", keep), want: []string{`status.certificateChain: Invalid value: "": issued certificate chain must contain at least one certificate`}},
		"another's":      {change: issue(leaf(another, same), keep), want: []string{"leaf certificate was not issued to the requested public key"}},
		"bad names":      {change: issue(leaf(key, func(c *x509.Certificate) { c.DNSNames = []string{"a..b", ".c"} }), keep), want: []string{`status.certificateChain: Invalid value: "a..b": leaf certificate's DNSName should not contain '..'`, `status.certificateChain: Invalid value: ".c": leaf certificate's DNSName should not start or end with '.'`}},
		"no times": {change: issue(leaf(key, same), func(s *certificatesv1.PodCertificateRequestStatus) {
			s.NotBefore, s.NotAfter, s.BeginRefreshAt = nil, nil, nil
		}), want: []string{"status.notBefore: Required value: must be present and consistent with the issued certificate", "status.notAfter: Required value: must be present and consistent with the issued certificate", "status.beginRefreshAt: Required value: must be present and in the range [notbefore+10min, notafter-10min]"}},
		"another start":    {change: issue(leaf(key, same), func(s *certificatesv1.PodCertificateRequestStatus) { s.NotBefore.Time = now.Add(time.Minute) }), want: []string{"must be set to the NotBefore time encoded in the leaf certificate"}},
		"another end":      {change: issue(leaf(key, same), func(s *certificatesv1.PodCertificateRequestStatus) { s.NotAfter.Time = now }), want: []string{"must be set to the NotAfter time encoded in the leaf certificate"}},
		"an early refresh": {change: issue(leaf(key, same), func(s *certificatesv1.PodCertificateRequestStatus) { s.BeginRefreshAt.Time = now }), want: []string{"must be at least 10 minutes after status.notBefore"}},
		"a late refresh":   {change: issue(leaf(key, same), func(s *certificatesv1.PodCertificateRequestStatus) { s.BeginRefreshAt.Time = now.Add(2 * time.Hour) }), want: []string{"must be at least 10 minutes before status.notAfter"}},
		"an old one":       {change: issue(leaf(key, func(c *x509.Certificate) { c.NotBefore = now.Add(-time.Hour) }), func(s *certificatesv1.PodCertificateRequestStatus) { s.NotBefore.Time = now.Add(-time.Hour) }), want: []string{"must be set to within 5 minutes of kube-apiserver's current time"}},
		"a short life":     {change: issue(leaf(key, func(c *x509.Certificate) { c.NotAfter = now.Add(time.Minute) }), func(s *certificatesv1.PodCertificateRequestStatus) { s.NotAfter.Time = now.Add(time.Minute) }), want: []string{"leaf certificate lifetime must be >= 1 hour"}},
		"a long life":      {change: issue(leaf(key, func(c *x509.Certificate) { c.NotAfter = now.Add(3 * time.Hour) }), func(s *certificatesv1.PodCertificateRequestStatus) { s.NotAfter.Time = now.Add(3 * time.Hour) }), want: []string{"leaf certificate lifetime must be <= spec.maxExpirationSeconds (7200)"}},
		"more than one":    {change: issue(leaf(key, same)+"-----BEGIN X-----\n-----END X-----\n", keep), want: []string{"issued certificate chain must consist entirely of CERTFICATE PEM blocks"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := old.DeepCopy()
			tc.change(r)
			errs := validatePodCertificateRequestStatus(r, old, now)
			errortest.Contain(t, errs, tc.want...)
			if len(errs) != len(tc.want) {
				t.Errorf("got %d errors: %v", len(errs), errs)
			}
		})
	}
	untimed := old.DeepCopy()
	untimed.Status.Conditions = []metav1.Condition{{Type: "Denied", Status: "True", Reason: "R"}}
	status := PodCertificateRequest().Subresources["status"]
	status.Prepare(untimed, old) // It does not set the time.
	errortest.Exactly(t, status.Validate(untimed, old), "status.conditions[0].lastTransitionTime: Required value")
	done := old.DeepCopy()
	done.Status.Conditions = []metav1.Condition{condition("Denied", "True")}
	errortest.Exactly(t, validatePodCertificateRequestStatus(old, done, now), "status: Invalid value: immutable after PodCertificateRequest is issued, denied, or failed")
}
