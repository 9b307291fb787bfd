package networking

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/network"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/values"
)

// leniency says which rules an ingress may break because the old object already did.
type leniency struct {
	secretNames   bool // TLS secrets with any name.
	wildcardRules bool // Rules with any content for wildcard hosts.
}

// validateIngress validates a new ingress.
func validateIngress(i *networkingv1.Ingress) field.ErrorList {
	errs := ingress(i, leniency{})
	annotation, ok := i.Annotations[annotationIngressClass]
	if class := i.Spec.IngressClassName; ok && class != nil && annotation != *class {
		errs = append(errs, field.Invalid(field.NewPath("annotations").Child(annotationIngressClass), annotation,
			"must match `ingressClassName` when both are specified"))
	}
	return errs
}

// validateIngressUpdate validates an update of an ingress.
func validateIngressUpdate(i, old *networkingv1.Ingress) field.ErrorList {
	return ingress(i, leniency{
		secretNames: slices.ContainsFunc(old.Spec.TLS, func(tls networkingv1.IngressTLS) bool {
			return len(secretName(tls.SecretName)) > 0
		}),
		wildcardRules: slices.ContainsFunc(old.Spec.Rules, func(rule networkingv1.IngressRule) bool {
			return strings.Contains(rule.Host, "*") && len(httpRule(rule.HTTP, nil)) > 0
		}),
	})
}

// validateIngressStatus validates an update of the status of an ingress.
func validateIngressStatus(i, old *networkingv1.Ingress) field.ErrorList {
	var had []string
	for _, point := range old.Status.LoadBalancer.Ingress {
		had = append(had, point.IP)
	}
	var errs field.ErrorList
	path := field.NewPath("status", "loadBalancer", "ingress")
	for n, point := range i.Status.LoadBalancer.Ingress {
		errs = append(errs, network.PublicPoint(path.Index(n), point.IP, point.Hostname, had)...)
	}
	return errs
}

func ingress(i *networkingv1.Ingress, may leniency) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&i.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	path, spec := field.NewPath("spec"), &i.Spec
	if len(spec.Rules) == 0 && spec.DefaultBackend == nil {
		errs = append(errs, field.Invalid(path, spec.Rules, "either `defaultBackend` or `rules` must be specified"))
	}
	if spec.DefaultBackend != nil {
		errs = append(errs, backend(spec.DefaultBackend, path.Child("defaultBackend"))...)
	}
	for n, rule := range spec.Rules {
		at := path.Child("rules").Index(n)
		errs = append(errs, ingressHost(rule.Host, at.Child("host"))...)
		if !may.wildcardRules || !strings.Contains(rule.Host, "*") {
			errs = append(errs, httpRule(rule.HTTP, at.Child("http"))...)
		}
	}
	for n, tls := range spec.TLS {
		at := path.Child("tls").Index(n)
		for h, host := range tls.Hosts {
			errs = append(errs, hostName(host, at.Child("hosts").Index(h))...)
		}
		if !may.secretNames {
			errs = append(errs, values.Invalid(at.Child("secretName"), tls.SecretName, secretName(tls.SecretName))...)
		}
	}
	if class := spec.IngressClassName; class != nil {
		errs = append(errs, values.Invalid(path.Child("ingressClassName"), *class, apivalidation.NameIsDNSSubdomain(*class, false))...)
	}
	return errs
}

func secretName(name string) []string {
	if name == "" {
		return nil
	}
	return apivalidation.NameIsDNSSubdomain(name, false)
}

func ingressHost(host string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if host == "" {
		return nil
	}
	if netutils.ParseIPSloppy(host) != nil {
		errs = append(errs, field.Invalid(path, host, "must be a DNS name, not an IP address"))
	}
	return append(errs, hostName(host, path)...)
}

func hostName(host string, path *field.Path) field.ErrorList {
	if strings.Contains(host, "*") {
		return values.Invalid(path, host, validation.IsWildcardDNS1123Subdomain(host))
	}
	return values.Invalid(path, host, validation.IsDNS1123Subdomain(host))
}

func httpRule(rule *networkingv1.HTTPIngressRuleValue, path *field.Path) field.ErrorList {
	if rule == nil {
		return nil
	}
	var errs field.ErrorList
	if len(rule.Paths) == 0 {
		errs = append(errs, field.Required(path.Child("paths"), ""))
	}
	for n := range rule.Paths {
		errs = append(errs, httpPath(&rule.Paths[n], path.Child("paths").Index(n))...)
	}
	return errs
}

func httpPath(p *networkingv1.HTTPIngressPath, path *field.Path) field.ErrorList {
	if p.PathType == nil {
		return field.ErrorList{field.Required(path.Child("pathType"), "pathType must be specified")}
	}
	var errs field.ErrorList
	at := path.Child("path")
	switch *p.PathType {
	case networkingv1.PathTypeExact, networkingv1.PathTypePrefix:
		if !strings.HasPrefix(p.Path, "/") {
			errs = append(errs, field.Invalid(at, p.Path, "must be an absolute path"))
		}
		for _, part := range []string{"//", "/./", "/../", "%2f", "%2F"} {
			if strings.Contains(p.Path, part) {
				errs = append(errs, field.Invalid(at, p.Path, fmt.Sprintf("must not contain '%s'", part)))
			}
		}
		for _, end := range []string{"/..", "/."} {
			if strings.HasSuffix(p.Path, end) {
				errs = append(errs, field.Invalid(at, p.Path, fmt.Sprintf("cannot end with '%s'", end)))
			}
		}
	case networkingv1.PathTypeImplementationSpecific:
		if p.Path != "" && !strings.HasPrefix(p.Path, "/") {
			errs = append(errs, field.Invalid(at, p.Path, "must be an absolute path"))
		}
	default:
		errs = append(errs, field.NotSupported(path.Child("pathType"), *p.PathType, []networkingv1.PathType{
			networkingv1.PathTypeExact, networkingv1.PathTypeImplementationSpecific, networkingv1.PathTypePrefix,
		}))
	}
	return append(errs, backend(&p.Backend, path.Child("backend"))...)
}

func backend(b *networkingv1.IngressBackend, path *field.Path) field.ErrorList {
	switch {
	case b.Resource != nil && b.Service != nil:
		return field.ErrorList{field.Invalid(path, "", "cannot set both resource and service backends")}
	case b.Resource != nil:
		return reference(b.Resource, path.Child("resource"))
	case b.Service == nil:
		return field.ErrorList{field.Invalid(path, "", "resource or service backend is required")}
	}
	var errs field.ErrorList
	if name := b.Service.Name; name == "" {
		errs = append(errs, field.Required(path.Child("service", "name"), ""))
	} else {
		errs = append(errs, values.Invalid(path.Child("service", "name"), name, apivalidation.NameIsDNSLabel(name, false))...)
	}
	port, at := b.Service.Port, path.Child("service", "port")
	switch {
	case port.Name != "" && port.Number != 0:
		errs = append(errs, field.Invalid(path, "", "cannot set both port name & port number"))
	case port.Name != "":
		errs = append(errs, values.Invalid(at.Child("name"), port.Name, validation.IsValidPortName(port.Name))...)
	case port.Number != 0:
		errs = append(errs, values.Invalid(at.Child("number"), port.Number, validation.IsValidPortNum(int(port.Number)))...)
	default:
		errs = append(errs, field.Required(path, "port name or number is required"))
	}
	return errs
}

func reference(ref *corev1.TypedLocalObjectReference, path *field.Path) field.ErrorList {
	return object(ref.APIGroup, ref.Kind, ref.Name, path)
}
