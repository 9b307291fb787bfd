package certificates

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/signer"
)

const (
	// minCertificateSeconds is the shortest validity that a client can request.
	minCertificateSeconds = 600
	// legacySigner is the signer of requests made by the first version of the API.
	legacySigner = "kubernetes.io/legacy-unknown"
)

// csr abbreviates the type's long name.
type csr = certificatesv1.CertificateSigningRequest

// validateCertificateSigningRequest validates a new certificate signing request.
func validateCertificateSigningRequest(c *csr) field.ErrorList {
	anyName := func(string, bool) []string { return nil }
	errs := apivalidation.ValidateObjectMeta(&c.ObjectMeta, false, anyName, field.NewPath("metadata"))
	path := field.NewPath("spec")
	if err := signedRequest(c.Spec.Request); err != nil {
		errs = append(errs, field.Invalid(path.Child("request"), c.Spec.Request, err.Error()))
	}
	errs = append(errs, keyUsages(c.Spec.Usages, path.Child("usages"))...)
	if c.Spec.SignerName == legacySigner {
		errs = append(errs, field.Invalid(path.Child("signerName"), c.Spec.SignerName, "the legacy signerName is not allowed via this API version"))
	} else {
		errs = append(errs, signer.Name(c.Spec.SignerName, path.Child("signerName"))...)
	}
	if seconds := c.Spec.ExpirationSeconds; seconds != nil && *seconds < minCertificateSeconds {
		errs = append(errs, field.Invalid(path.Child("expirationSeconds"), *seconds, "may not specify a duration less than 600 seconds (10 minutes)"))
	}
	return errs
}

// signedRequest checks that data is a PEM block with a certificate request that is signed with its
// own key.
func signedRequest(data []byte) error {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return err
	}
	return request.CheckSignature()
}

func keyUsages(usages []certificatesv1.KeyUsage, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(usages) == 0 {
		errs = append(errs, field.Required(path, ""))
	}
	known := []certificatesv1.KeyUsage{
		certificatesv1.UsageSigning, certificatesv1.UsageDigitalSignature, certificatesv1.UsageContentCommitment,
		certificatesv1.UsageKeyEncipherment, certificatesv1.UsageKeyAgreement, certificatesv1.UsageDataEncipherment,
		certificatesv1.UsageCertSign, certificatesv1.UsageCRLSign, certificatesv1.UsageEncipherOnly, certificatesv1.UsageDecipherOnly,
		certificatesv1.UsageAny, certificatesv1.UsageServerAuth, certificatesv1.UsageClientAuth, certificatesv1.UsageCodeSigning,
		certificatesv1.UsageEmailProtection, certificatesv1.UsageSMIME, certificatesv1.UsageIPsecEndSystem, certificatesv1.UsageIPsecTunnel,
		certificatesv1.UsageIPsecUser, certificatesv1.UsageTimestamping, certificatesv1.UsageOCSPSigning, certificatesv1.UsageMicrosoftSGC,
		certificatesv1.UsageNetscapeSGC,
	}
	slices.Sort(known)
	for i, usage := range usages {
		if !slices.Contains(known, usage) {
			errs = append(errs, field.NotSupported(path.Index(i), usage, known))
		}
	}
	for i, usage := range usages {
		if slices.Contains(usages[:i], usage) {
			errs = append(errs, field.Duplicate(path.Index(i), usage))
		}
	}
	return errs
}

// validateCertificateSigningRequestUpdate validates an update: only metadata can change.
func validateCertificateSigningRequestUpdate(c, old *csr) field.ErrorList {
	return requestUpdate(c, old, false, false)
}

// validateCertificateSigningRequestStatus validates an update of the status, which sets the certificate,
// once.
func validateCertificateSigningRequestStatus(c, old *csr) field.ErrorList {
	return requestUpdate(c, old, false, true)
}

// validateCertificateSigningRequestApproval validates an approval or a denial.
func validateCertificateSigningRequestApproval(c, old *csr) field.ErrorList {
	return requestUpdate(c, old, true, false)
}

func requestUpdate(c, old *csr, approving, issuing bool) field.ErrorList {
	errs := requestConditions(c, old)
	path := field.NewPath("status", "certificate")
	changed := !bytes.Equal(c.Status.Certificate, old.Status.Certificate)
	if changed {
		if err := certificates(c.Status.Certificate); err != nil {
			errs = append(errs, field.Invalid(path, "<certificate data>", err.Error()))
		}
	}
	conditions := field.NewPath("status", "conditions")
	for _, kind := range []certificatesv1.RequestConditionType{
		certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed,
	} {
		now, before := conditionsOf(c, kind), conditionsOf(old, kind)
		switch {
		case len(now) < len(before):
			errs = append(errs, field.Forbidden(conditions, fmt.Sprintf("updates may not remove a condition of type %q", kind)))
		case approving || kind == certificatesv1.CertificateFailed:
		case len(now) > len(before):
			errs = append(errs, field.Forbidden(conditions, fmt.Sprintf("updates may not add a condition of type %q", kind)))
		case !apiequality.Semantic.DeepEqual(before, now):
			errs = append(errs, field.Forbidden(conditions, fmt.Sprintf("updates may not modify a condition of type %q\n%v", kind, diff.Diff(before, now))))
		}
	}
	switch {
	case !changed:
	case !issuing:
		errs = append(errs, field.Forbidden(path, "updates may not set certificate content"))
	case len(old.Status.Certificate) > 0:
		errs = append(errs, field.Forbidden(path, "updates may not modify existing certificate content"))
	}
	return append(errs, apivalidation.ValidateObjectMetaUpdate(&c.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))...)
}

// How errors name the conditions of which a request has at most one.
const (
	approvedCondition = `conditions[{"type": "Approved"}]`
	deniedCondition   = `conditions[{"type": "Denied"}]`
)

// requestConditions checks conditions. Repeated types, approval together with denial, and an empty
// type may stay if the old object has them.
func requestConditions(c, old *csr) field.ErrorList {
	var errs field.ErrorList
	both := func(c *csr) bool {
		return len(conditionsOf(c, certificatesv1.CertificateApproved)) > 0 && len(conditionsOf(c, certificatesv1.CertificateDenied)) > 0
	}
	if both(c) && !both(old) {
		errs = append(errs, field.Invalid(field.NewPath("status", "conditions"),
			fmt.Sprintf("{%s, %s}", approvedCondition, deniedCondition), fmt.Sprintf("must specify at most one of: `%s`, `%s`", approvedCondition, deniedCondition)))
	}
	repeats, unnamed := false, len(conditionsOf(old, "")) > 0
	for i, condition := range old.Status.Conditions {
		repeats = repeats || len(conditionsOf(&csr{Status: certificatesv1.CertificateSigningRequestStatus{Conditions: old.Status.Conditions[:i]}}, condition.Type)) > 0
	}
	seen := map[certificatesv1.RequestConditionType]bool{}
	for i, condition := range c.Status.Conditions {
		path := field.NewPath("status", "conditions").Index(i)
		if condition.Type == "" && !unnamed {
			errs = append(errs, field.Required(path.Child("type"), ""))
		}
		allowed := []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown}
		switch condition.Type {
		case certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed:
			allowed = allowed[1:2]
		}
		switch {
		case condition.Status == "":
			errs = append(errs, field.Required(path.Child("status"), ""))
		case !slices.Contains(allowed, condition.Status):
			errs = append(errs, field.NotSupported(path.Child("status"), condition.Status, allowed))
		}
		if seen[condition.Type] && !repeats {
			errs = append(errs, field.Duplicate(path.Child("type"), condition.Type))
		}
		seen[condition.Type] = true
	}
	return errs
}

func conditionsOf(c *csr, kind certificatesv1.RequestConditionType) []certificatesv1.CertificateSigningRequestCondition {
	var found []certificatesv1.CertificateSigningRequestCondition
	for _, condition := range c.Status.Conditions {
		if condition.Type == kind {
			found = append(found, condition)
		}
	}
	return found
}

// certificates checks that data is empty or consists of PEM certificates.
func certificates(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	for blocks := 0; ; blocks++ {
		block, rest := pem.Decode(data)
		switch {
		case block == nil && blocks == 0:
			return errors.New("must contain at least one CERTIFICATE PEM block")
		case block == nil:
			return nil
		case block.Type != "CERTIFICATE":
			return fmt.Errorf("only CERTIFICATE PEM blocks are allowed, found %q", block.Type)
		case len(block.Headers) != 0:
			return errors.New("no PEM block headers are permitted")
		}
		found, err := x509.ParseCertificates(block.Bytes)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return errors.New("found CERTIFICATE PEM block containing 0 certificates")
		}
		data = rest
	}
}
