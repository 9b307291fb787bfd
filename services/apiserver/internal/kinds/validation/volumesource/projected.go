package volumesource

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/signer"
)

// Kubernetes' limits for tokens and certificates of a pod, in seconds.
const (
	minTokenSeconds       = 10 * 60
	maxTokenSeconds       = 1 << 32
	minCertificateSeconds = 60 * 60
	maxCertificateSeconds = 91 * 24 * 60 * 60
	maxKubernetesSeconds  = 24 * 60 * 60 // for signers of kubernetes.io
)

// projection checks the sources of a projected volume, which must not contain the same file twice.
type projection struct {
	at    *field.Path
	files sets.Set[string]
	errs  field.ErrorList
}

func (p *projection) source(s *corev1.VolumeProjection, at *field.Path) {
	count := 0
	for _, kind := range []struct {
		there bool
		check func()
	}{
		{s.Secret != nil, func() { p.keys(s.Secret.Name, s.Secret.Items, at.Child("secret")) }},
		{s.ConfigMap != nil, func() { p.keys(s.ConfigMap.Name, s.ConfigMap.Items, at.Child("configMap")) }},
		{s.DownwardAPI != nil, func() {
			for i := range s.DownwardAPI.Items {
				p.errs = append(p.errs, downward(&s.DownwardAPI.Items[i], at.Child("downwardAPI"))...)
				if path := s.DownwardAPI.Items[i].Path; path != "" {
					p.file(path, path)
				}
			}
		}},
		{s.ServiceAccountToken != nil, func() { p.token(s.ServiceAccountToken, at.Child("serviceAccountToken")) }},
		{s.ClusterTrustBundle != nil, func() { p.bundle(s.ClusterTrustBundle, at.Child("clusterTrustBundle")) }},
		{s.PodCertificate != nil, func() { p.certificate(s.PodCertificate, at.Child("podCertificate")) }},
	} {
		if kind.there {
			count++
			kind.check()
		}
	}
	if count > 1 {
		p.errs = append(p.errs, field.Forbidden(at, "may not specify more than 1 volume type per source"))
	}
}

// file records a file's path, and reports value as an error if the path is taken.
func (p *projection) file(path, value string) {
	if p.files.Has(path) {
		p.errs = append(p.errs, field.Invalid(p.at, value, "conflicting duplicate paths"))
	}
	p.files.Insert(path)
}

func (p *projection) keys(name string, list []corev1.KeyToPath, at *field.Path) {
	if name == "" {
		p.errs = append(p.errs, field.Required(at.Child("name"), ""))
	}
	p.errs = append(p.errs, items(list, at.Child("items"))...)
	for _, item := range list {
		if item.Path != "" {
			p.file(item.Path, name)
		}
	}
}

func (p *projection) token(token *corev1.ServiceAccountTokenProjection, at *field.Path) {
	if s := token.ExpirationSeconds; s != nil {
		if *s < minTokenSeconds {
			p.errs = append(p.errs, field.Invalid(at.Child("expirationSeconds"), *s, "may not specify a duration less than 10 minutes"))
		}
		if *s > maxTokenSeconds {
			p.errs = append(p.errs, field.Invalid(at.Child("expirationSeconds"), *s, "may not specify a duration larger than 2^32 seconds"))
		}
	}
	if token.Path == "" { // Kubernetes reports this at the volume's path.
		p.errs = append(p.errs, field.Required(p.at.Child("path"), ""))
		return
	}
	p.errs = append(p.errs, localPath(token.Path, p.at.Child("path"))...)
}

func (p *projection) bundle(b *corev1.ClusterTrustBundleProjection, at *field.Path) {
	switch {
	case b.Name != nil && b.SignerName != nil:
		p.errs = append(p.errs, field.Invalid(at, b, "only one of name and signerName may be used"))
	case b.Name != nil:
		if *b.Name == "" {
			p.errs = append(p.errs, field.Required(at.Child("name"), "must be a valid object name"))
		}
		for _, msg := range signer.BundleName(*b.Name) {
			p.errs = append(p.errs, field.Invalid(at.Child("name"), *b.Name, fmt.Sprintf("not a valid clustertrustbundlename: %v", msg)))
		}
		if b.LabelSelector != nil {
			p.errs = append(p.errs, field.Invalid(at.Child("labelSelector"), b.LabelSelector, "labelSelector must be unset if name is specified"))
		}
	case b.SignerName != nil:
		if *b.SignerName == "" {
			p.errs = append(p.errs, field.Required(at.Child("signerName"), "must be a valid signer name"))
		}
		p.errs = append(p.errs, signer.Name(*b.SignerName, at.Child("signerName"))...)
		p.errs = append(p.errs, metav1validation.ValidateLabelSelector(b.LabelSelector, metav1validation.LabelSelectorValidationOptions{}, at.Child("labelSelector"))...)
	default:
		p.errs = append(p.errs, field.Required(at, "either name or signerName must be specified"))
	}
	if b.Path == "" {
		p.errs = append(p.errs, field.Required(at.Child("path"), ""))
	}
	p.errs = append(p.errs, localPath(b.Path, at.Child("path"))...)
	p.file(b.Path, b.Path) // Kubernetes compares bundles without a path too.
}

func (p *projection) certificate(c *corev1.PodCertificateProjection, at *field.Path) {
	kinds := []string{"RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"}
	if !slices.Contains(kinds, c.KeyType) {
		p.errs = append(p.errs, field.NotSupported(at.Child("keyType"), c.KeyType, kinds))
	}
	p.errs = append(p.errs, signer.Name(c.SignerName, at.Child("signerName"))...)
	longest := maxCertificateSeconds
	if domain, _, _ := strings.Cut(c.SignerName, "/"); domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io") {
		longest = maxKubernetesSeconds
	}
	if s := c.MaxExpirationSeconds; s != nil && *s < minCertificateSeconds {
		p.errs = append(p.errs, field.Invalid(at.Child("maxExpirationSeconds"), *s, fmt.Sprintf("if provided, maxExpirationSeconds must be >= %d", minCertificateSeconds)))
	} else if s != nil && int(*s) > longest {
		p.errs = append(p.errs, field.Invalid(at.Child("maxExpirationSeconds"), *s, fmt.Sprintf("if provided, maxExpirationSeconds must be <= %d", longest)))
	}
	some := false
	for _, file := range []struct{ name, path string }{
		{"credentialBundlePath", c.CredentialBundlePath}, {"keyPath", c.KeyPath}, {"certificateChainPath", c.CertificateChainPath},
	} {
		if file.path == "" {
			continue
		}
		some = true
		p.errs = append(p.errs, localPath(file.path, at.Child(file.name))...)
		p.file(file.path, file.path)
	}
	if !some {
		p.errs = append(p.errs, field.Required(at, "specify at least one of credentialBundlePath, keyPath, and certificateChainPath"))
	}
	p.errs = append(p.errs, signer.ValidateUserAnnotations(c.UserAnnotations, at.Child("userAnnotations"))...)
}

func projected(source *corev1.ProjectedVolumeSource, at *field.Path) field.ErrorList {
	p := &projection{at: at, files: sets.New[string](), errs: mode(source.DefaultMode, at.Child("defaultMode"))}
	for i := range source.Sources {
		p.source(&source.Sources[i], at.Child("sources").Index(i))
	}
	return p.errs
}
