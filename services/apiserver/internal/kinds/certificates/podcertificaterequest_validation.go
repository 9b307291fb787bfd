package certificates

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/mail"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/signer"
)

// Kubernetes' limits for pod certificates.
const (
	maxStubRequest       = 10 << 10 // bytes
	maxChain             = 100 << 10
	maxUID               = 128
	minLifeSeconds       = 60 * 60
	maxLifeSeconds       = 91 * 24 * 60 * 60
	maxKubernetesSeconds = 24 * 60 * 60 // for signers of kubernetes.io
	refreshMargin        = 10 * time.Minute
	clockSkew            = 5 * time.Minute
)

// podRequest abbreviates the type's long name.
type podRequest = certificatesv1.PodCertificateRequest

// validatePodCertificateRequest validates a pod's request for a certificate.
func validatePodCertificateRequest(r *podRequest) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&r.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	s, at := &r.Spec, field.NewPath("spec")
	errs = append(errs, signer.Name(s.SignerName, at.Child("signerName"))...)
	errs = append(errs, signer.ValidateUserAnnotations(s.UnverifiedUserAnnotations, at.Child("unverifiedUserAnnotations"))...)
	for _, part := range []struct {
		name, value string
		uid         types.UID
		check       apivalidation.ValidateNameFunc
	}{
		{"pod", s.PodName, s.PodUID, apivalidation.NameIsDNSSubdomain},
		{"serviceAccount", s.ServiceAccountName, s.ServiceAccountUID, apivalidation.ValidateServiceAccountName},
		{"node", string(s.NodeName), s.NodeUID, apivalidation.NameIsDNSSubdomain},
	} {
		for _, msg := range part.check(part.value, false) {
			errs = append(errs, field.Invalid(at.Child(part.name+"Name"), part.value, msg))
		}
		if part.uid == "" {
			errs = append(errs, field.Invalid(at.Child(part.name+"UID"), part.uid, "must not be empty"))
		}
		if len(part.uid) > maxUID {
			errs = append(errs, field.TooLong(at.Child(part.name+"UID"), part.uid, maxUID))
		}
	}
	longest := maxLifeSeconds
	if domain, _, _ := strings.Cut(s.SignerName, "/"); domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io") {
		longest = maxKubernetesSeconds
	}
	life := s.MaxExpirationSeconds
	if life == nil {
		return append(errs, field.Required(at.Child("maxExpirationSeconds"), "must be set"))
	}
	if *life < minLifeSeconds || int(*life) > longest {
		errs = append(errs, field.Invalid(at.Child("maxExpirationSeconds"), *life, fmt.Sprintf("must be in the range [%d, %d]", minLifeSeconds, longest)))
	}
	if len(s.StubPKCS10Request) == 0 {
		return append(errs, field.Invalid(at, field.OmitValueType{}, "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set"))
	}
	return append(errs, stubRequest(s.StubPKCS10Request, at.Child("stubPKCS10Request"))...)
}

// stubRequest checks the request that carries a pod's key, and that it is signed with that key.
// Nothing reads its other content.
func stubRequest(der []byte, at *field.Path) field.ErrorList {
	if len(der) > maxStubRequest {
		return field.ErrorList{field.TooLong(at, der, maxStubRequest)}
	}
	request, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return field.ErrorList{field.Invalid(at, field.OmitValueType{}, "must be a valid PKCS#10 CSR")}
	}
	switch key := request.PublicKey.(type) {
	case ed25519.PublicKey:
	case *ecdsa.PublicKey:
		if key.Curve != elliptic.P256() && key.Curve != elliptic.P384() && key.Curve != elliptic.P521() {
			return field.ErrorList{field.Invalid(at, "curve "+key.Curve.Params().Name, "elliptic public keys must use curve P256, P384, or P521")}
		}
	case *rsa.PublicKey:
		if bits := key.Size() * 8; bits != 3072 && bits != 4096 {
			return field.ErrorList{field.Invalid(at, fmt.Sprintf("%d-bit modulus", bits), "RSA keys must have modulus size 3072 or 4096")}
		}
	default:
		return field.ErrorList{field.Invalid(at, field.OmitValueType{}, "unknown public key type; supported types are Ed25519, ECDSA, and RSA")}
	}
	if err := request.CheckSignature(); err != nil {
		return field.ErrorList{field.Invalid(at, field.OmitValueType{}, "invalid signature")}
	}
	return nil
}

// validatePodCertificateRequestUpdate validates an update of such a request: only its metadata can change.
func validatePodCertificateRequestUpdate(r, old *podRequest) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&r.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	return append(errs, apivalidation.ValidateImmutableField(r.Spec, old.Spec, field.NewPath("spec"))...)
}

// validatePodCertificateRequestStatus validates an update of the status of such a request at the time now:
// it changes once, to issued, denied or failed.
func validatePodCertificateRequestStatus(r, old *podRequest, now time.Time) field.ErrorList {
	if errs := apivalidation.ValidateObjectMetaUpdate(&r.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata")); len(errs) > 0 {
		return errs
	}
	at := field.NewPath("status")
	if errs := outcomes(r.Status.Conditions, at.Child("conditions")); len(errs) > 0 {
		return errs
	}
	same := func(status certificatesv1.PodCertificateRequestStatus, detail string) field.ErrorList {
		if apiequality.Semantic.DeepEqual(r.Status, status) {
			return nil
		}
		return field.ErrorList{field.Invalid(at, field.OmitValueType{}, detail)}
	}
	if outcome(old) != "" {
		return same(old.Status, "immutable after PodCertificateRequest is issued, denied, or failed")
	}
	switch outcome(r) {
	case certificatesv1.PodCertificateRequestConditionTypeIssued:
		return issued(r, at, now)
	case certificatesv1.PodCertificateRequestConditionTypeDenied, certificatesv1.PodCertificateRequestConditionTypeFailed:
		return same(certificatesv1.PodCertificateRequestStatus{Conditions: r.Status.Conditions},
			"non-condition status fields must be empty when denying or failing the PodCertificateRequest")
	}
	return same(old.Status, `status is immutable unless transitioning to "Issued", "Denied", or "Failed"`)
}

// outcome returns how a request has ended; empty if it has not.
func outcome(r *podRequest) string {
	for _, c := range r.Status.Conditions {
		switch c.Type {
		case certificatesv1.PodCertificateRequestConditionTypeIssued, certificatesv1.PodCertificateRequestConditionTypeDenied,
			certificatesv1.PodCertificateRequestConditionTypeFailed:
			if c.Status == metav1.ConditionTrue {
				return c.Type
			}
		}
	}
	return ""
}

func outcomes(conditions []metav1.Condition, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	known := []string{
		certificatesv1.PodCertificateRequestConditionTypeIssued, certificatesv1.PodCertificateRequestConditionTypeDenied,
		certificatesv1.PodCertificateRequestConditionTypeFailed,
	}
	count := 0
	for i, c := range conditions {
		at := at.Child(fmt.Sprintf("[%d]", i)) // Kubernetes formats the index like this.
		if !slices.Contains(known, c.Type) {
			errs = append(errs, field.NotSupported(at.Child("type"), c.Type, known))
			continue
		}
		if count++; count > 1 {
			errs = append(errs, field.Invalid(at.Child("type"), c.Type, `There may be at most one condition with type "Issued", "Denied", or "Failed"`))
		}
		if c.Status != metav1.ConditionTrue {
			errs = append(errs, field.NotSupported(at.Child("status"), c.Status, []metav1.ConditionStatus{metav1.ConditionTrue}))
		}
	}
	return append(errs, metav1validation.ValidateConditions(conditions, at)...)
}

// issued checks the issued certificate and the times that the status states.
func issued(r *podRequest, at *field.Path, now time.Time) field.ErrorList {
	chain, at := r.Status.CertificateChain, at.Child("certificateChain")
	if len(chain) > maxChain {
		return field.ErrorList{field.TooLong(at, chain, maxChain)}
	}
	block, rest := pem.Decode([]byte(chain))
	switch {
	case block == nil:
		return field.ErrorList{field.Invalid(at, chain, "issued certificate chain must contain at least one certificate")}
	case block.Type != "CERTIFICATE":
		return field.ErrorList{field.Invalid(at, chain, "issued certificate chain must consist entirely of CERTIFICATE PEM blocks")}
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return field.ErrorList{field.Invalid(at, chain, "leaf certificate does not parse as valid X.509")}
	}
	errs := leafNames(leaf, at)
	request, err := x509.ParseCertificateRequest(r.Spec.StubPKCS10Request)
	if err != nil {
		return append(errs, field.Invalid(field.NewPath("spec", "stubPKCS10Request"), field.OmitValueType{}, "must be a valid PKCS#10 CSR"))
	}
	if key, ok := request.PublicKey.(interface{ Equal(crypto.PublicKey) bool }); ok && !key.Equal(leaf.PublicKey) {
		return append(errs, field.Invalid(at, chain, "leaf certificate was not issued to the requested public key"))
	}
	if errs = append(errs, lifetime(r, leaf, now)...); len(errs) > 0 {
		return errs
	}
	for block, rest = pem.Decode(rest); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			return field.ErrorList{field.Invalid(at, chain, "issued certificate chain must consist entirely of CERTFICATE PEM blocks")}
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return field.ErrorList{field.Invalid(at, chain, "intermediate certificate does not parse as valid X.509")}
		}
	}
	return nil
}

func leafNames(leaf *x509.Certificate, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range leaf.DNSNames {
		if name == "" {
			errs = append(errs, field.Invalid(at, name, "leaf certificate should not contain empty DNSName"))
		}
		if strings.Contains(name, "..") {
			errs = append(errs, field.Invalid(at, name, "leaf certificate's DNSName should not contain '..'"))
		}
		if strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") {
			errs = append(errs, field.Invalid(at, name, "leaf certificate's DNSName should not start or end with '.'"))
		}
	}
	for _, address := range leaf.EmailAddresses {
		if _, err := mail.ParseAddress(address); err != nil {
			errs = append(errs, field.Invalid(at, address, "leaf certificate should not contain invalid EmailAddress"))
		}
	}
	return errs
}

// lifetime compares the times in a status with the certificate's and with the requested validity.
func lifetime(r *podRequest, leaf *x509.Certificate, now time.Time) field.ErrorList {
	status, at := &r.Status, field.NewPath("status")
	var errs field.ErrorList
	for _, told := range []struct {
		name   string
		at     *metav1.Time
		detail string
	}{
		{"notBefore", status.NotBefore, "must be present and consistent with the issued certificate"},
		{"notAfter", status.NotAfter, "must be present and consistent with the issued certificate"},
		{"beginRefreshAt", status.BeginRefreshAt, "must be present and in the range [notbefore+10min, notafter-10min]"},
	} {
		if told.at == nil {
			errs = append(errs, field.Required(at.Child(told.name), told.detail))
		}
	}
	if len(errs) > 0 {
		return errs
	}
	start, end, refresh := status.NotBefore.Time, status.NotAfter.Time, status.BeginRefreshAt.Time
	life := leaf.NotAfter.Sub(leaf.NotBefore)
	longest := int32(0)
	if r.Spec.MaxExpirationSeconds != nil {
		longest = *r.Spec.MaxExpirationSeconds
	}
	switch {
	case !start.Equal(leaf.NotBefore):
		return field.ErrorList{field.Invalid(at.Child("notBefore"), start, "must be set to the NotBefore time encoded in the leaf certificate")}
	case start.Sub(now).Abs() >= clockSkew:
		return field.ErrorList{field.Invalid(at.Child("notBefore"), start, "must be set to within 5 minutes of kube-apiserver's current time")}
	case !end.Equal(leaf.NotAfter):
		return field.ErrorList{field.Invalid(at.Child("notAfter"), end, "must be set to the NotAfter time encoded in the leaf certificate")}
	case life < minLifeSeconds*time.Second:
		return field.ErrorList{field.Invalid(at.Child("certificateChain"), life, "leaf certificate lifetime must be >= 1 hour")}
	case life > time.Duration(longest)*time.Second:
		return field.ErrorList{field.Invalid(at.Child("certificateChain"), life,
			fmt.Sprintf("leaf certificate lifetime must be <= spec.maxExpirationSeconds (%v)", longest))}
	case refresh.Before(start.Add(refreshMargin)):
		return field.ErrorList{field.Invalid(at.Child("beginRefreshAt"), refresh, "must be at least 10 minutes after status.notBefore")}
	case refresh.After(end.Add(-refreshMargin)):
		return field.ErrorList{field.Invalid(at.Child("beginRefreshAt"), refresh, "must be at least 10 minutes before status.notAfter")}
	}
	return nil
}
