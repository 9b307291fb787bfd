package signer

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// A signer's name is a domain, a slash, and room for a namespace, a dot and a name.
	maxSignerName = validation.DNS1123SubdomainMaxLength + 1 + validation.DNS1123LabelMaxLength + 1 + validation.DNS1123SubdomainMaxLength
)

// Name validates the name of a signer, example.com/name.
func Name(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	parts := strings.Split(name, "/")
	if len(parts) != 2 {
		return field.ErrorList{field.Invalid(path, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")}
	}
	var errs field.ErrorList
	domain, rest := parts[0], parts[1]
	if len(domain) > validation.DNS1123SubdomainMaxLength {
		errs = append(errs, field.TooLong(path, "", validation.DNS1123SubdomainMaxLength))
	}
	errs = append(errs, signerLabels(domain, validation.IsDNS1123Label, path)...)
	if !strings.Contains(domain, ".") {
		errs = append(errs, field.Invalid(path, domain, "should be a domain with at least two segments separated by dots"))
	}
	errs = append(errs, signerLabels(rest, validation.IsDNS1123Subdomain, path)...)
	if len(name) > maxSignerName {
		errs = append(errs, field.TooLong(path, "", maxSignerName))
	}
	return errs
}

// signerLabels checks the parts between dots, up to the first invalid one.
func signerLabels(segment string, check func(string) []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for label := range strings.SplitSeq(segment, ".") {
		for _, msg := range check(label) {
			errs = append(errs, field.Invalid(path, segment, fmt.Sprintf("validating label %q: %s", label, msg)))
		}
		if len(errs) > 0 {
			return errs
		}
	}
	return nil
}

// ValidateUserAnnotations validates the annotations by which a pod informs the signer of its certificate.
func ValidateUserAnnotations(annotations map[string]string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	size := 0
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		errs = append(errs, validation.IsDomainPrefixedKey(at, strings.ToLower(key))...)
		size += len(key) + len(annotations[key])
	}
	if size > apivalidation.TotalAnnotationSizeLimitB {
		errs = append(errs, field.TooLong(at, "", apivalidation.TotalAnnotationSizeLimitB))
	}
	return errs
}

// BundleName returns what is wrong with the name of a bundle. It takes the signer, if any, from the
// name.
func BundleName(name string) []string {
	signer := ""
	if i := strings.LastIndex(name, ":"); i >= 0 {
		signer = strings.ReplaceAll(name[:i], ":", "/")
	}
	return TrustBundle(signer)(name, false)
}

// TrustBundle checks the name of a bundle, which begins with its signer's name.
func TrustBundle(signer string) apivalidation.ValidateNameFunc {
	return func(name string, prefix bool) []string {
		if signer == "" {
			if strings.Contains(name, ":") {
				return []string{`ClusterTrustBundle without signer name must not have ":" in its name`}
			}
			return apivalidation.NameIsDNSSubdomain(name, prefix)
		}
		start := strings.ReplaceAll(signer, "/", ":") + ":"
		rest, ok := strings.CutPrefix(name, start)
		if !ok {
			return []string{fmt.Sprintf("ClusterTrustBundle for signerName %s must be named with prefix %s", signer, start)}
		}
		return apivalidation.NameIsDNSSubdomain(rest, prefix)
	}
}
