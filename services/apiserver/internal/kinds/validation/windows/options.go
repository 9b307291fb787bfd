// Package windows validates what only pods on Windows have.
package windows

import (
	"fmt"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Kubernetes' limits for Windows options.
const (
	maxCredentialSpec  = 64 << 10
	maxRunAsUserDomain = 256
	maxRunAsUserName   = 104
)

// Options validates the options of a pod or a container on Windows.
func Options(o *corev1.WindowsSecurityContextOptions, path *field.Path) field.ErrorList {
	if o == nil {
		return nil
	}
	var errs field.ErrorList
	if name := o.GMSACredentialSpecName; name != nil {
		for _, msg := range validation.IsDNS1123Subdomain(*name) {
			errs = append(errs, field.Invalid(path.Child("gmsaCredentialSpecName"), *name, msg))
		}
	}
	if spec := o.GMSACredentialSpec; spec != nil {
		at := path.Child("gmsaCredentialSpec")
		if *spec == "" {
			errs = append(errs, field.Invalid(at, *spec, "gmsaCredentialSpec cannot be an empty string"))
		} else if len(*spec) > maxCredentialSpec {
			errs = append(errs, field.Invalid(at, *spec, fmt.Sprintf("gmsaCredentialSpec size must be under %d KiB", maxCredentialSpec>>10)))
		}
	}
	if name := o.RunAsUserName; name != nil {
		errs = append(errs, user(*name, path.Child("runAsUserName"))...)
	}
	return errs
}

// user checks DOMAIN\User or User by the rules of Windows.
func user(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Invalid(path, name, "runAsUserName cannot be an empty string")}
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return field.ErrorList{field.Invalid(path, name, "runAsUserName cannot contain control characters")}
	}
	parts := strings.Split(name, `\`)
	if len(parts) > 2 {
		return field.ErrorList{field.Invalid(path, name, `runAsUserName cannot contain more than one backslash`)}
	}
	var errs field.ErrorList
	own := parts[len(parts)-1]
	if len(parts) == 2 {
		domain := parts[0]
		if utf8.RuneCountInString(domain) >= maxRunAsUserDomain {
			errs = append(errs, field.Invalid(path, name, fmt.Sprintf("runAsUserName's Domain length must be under %d characters", maxRunAsUserDomain)))
		}
		if strings.ContainsAny(domain, `\/:*?"<>|`) || strings.HasPrefix(domain, ".") {
			errs = append(errs, field.Invalid(path, name, "runAsUserName's Domain doesn't match the NetBios nor the DNS format"))
		}
	}
	switch {
	case own == "":
		errs = append(errs, field.Invalid(path, name, "runAsUserName's User cannot be empty"))
	case utf8.RuneCountInString(own) > maxRunAsUserName:
		errs = append(errs, field.Invalid(path, name, fmt.Sprintf("runAsUserName's User length must not be longer than %d characters", maxRunAsUserName)))
	case strings.Trim(own, ". ") == "":
		errs = append(errs, field.Invalid(path, name, "runAsUserName's User cannot contain only periods or spaces"))
	case strings.ContainsAny(own, `"/\[]:;|=,+*?<>@`):
		errs = append(errs, field.Invalid(path, name, `runAsUserName's User cannot contain the following characters: "/\:;|=,+*?<>@[]`))
	}
	return errs
}
