package certificates

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/signer"
)

const (
	// maxTrustBundle is the largest trust bundle, in bytes.
	maxTrustBundle = 1 << 20
	// omitted replaces values that are too long to repeat in an error.
	omitted = "<value omitted>"
)

// validateClusterTrustBundle validates a trust bundle.
func validateClusterTrustBundle(b *certificatesv1.ClusterTrustBundle) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&b.ObjectMeta, false, signer.TrustBundle(b.Spec.SignerName), field.NewPath("metadata"))
	errs = append(errs, bundleSigner(b)...)
	return append(errs, trustBundle(b.Spec.TrustBundle, field.NewPath("spec", "trustBundle"))...)
}

// validateClusterTrustBundleUpdate validates an update of a trust bundle. Unchanged certificates are not
// parsed again.
func validateClusterTrustBundleUpdate(b, old *certificatesv1.ClusterTrustBundle) field.ErrorList {
	errs := append(apivalidation.ValidateObjectMetaUpdate(&b.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata")), bundleSigner(b)...)
	if b.Spec.TrustBundle != old.Spec.TrustBundle {
		errs = append(errs, trustBundle(b.Spec.TrustBundle, field.NewPath("spec", "trustBundle"))...)
	}
	for _, msg := range signer.TrustBundle(b.Spec.SignerName)(b.Name, false) {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), b.Name, msg))
	}
	return append(errs, apivalidation.ValidateImmutableField(b.Spec.SignerName, old.Spec.SignerName, field.NewPath("spec", "signerName"))...)
}

func bundleSigner(b *certificatesv1.ClusterTrustBundle) field.ErrorList {
	if b.Spec.SignerName == "" {
		return nil
	}
	return signer.Name(b.Spec.SignerName, field.NewPath("spec", "signerName"))
}

// trustBundle checks that a bundle consists of CA certificates, each once.
func trustBundle(text string, path *field.Path) field.ErrorList {
	if len(text) > maxTrustBundle {
		return field.ErrorList{field.TooLong(path, "", maxTrustBundle)}
	}
	var errs field.ErrorList
	wrong := func(format string, args ...any) {
		errs = append(errs, field.Invalid(path, omitted, fmt.Sprintf(format, args...)))
	}
	var order []string
	found := map[string][]int{}
	rest := []byte(text)
	for i := 0; ; i++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			wrong("entry %d has bad block type: %v", i, block.Type)
			continue
		}
		if len(block.Headers) > 0 {
			wrong("entry %d has PEM block headers", i)
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		switch {
		case err != nil:
			wrong("entry %d does not parse as X.509", i)
			continue
		case !certificate.IsCA:
			wrong("entry %d does not have the CA bit set", i)
			continue
		case !certificate.BasicConstraintsValid:
			wrong("entry %d has invalid basic constraints", i)
			continue
		}
		der := string(block.Bytes)
		if len(found[der]) == 0 {
			order = append(order, der)
		}
		found[der] = append(found[der], i)
	}
	if len(errs) > 0 {
		return errs
	}
	if len(order) == 0 {
		wrong("at least one trust anchor must be provided")
	}
	for _, der := range order {
		if len(found[der]) > 1 {
			wrong("duplicate trust anchor (indices %v)", found[der])
		}
	}
	return errs
}
