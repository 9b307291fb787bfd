package admissionregistration

import (
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// webhook is what validating and mutating webhooks share: everything but the reinvocation policy.
type webhook = admissionregistrationv1.ValidatingWebhook

// lenience says which invalid parts an update may keep because the stored configuration has them.
type lenience struct {
	conditions, sideEffects, versions, names, selectors bool
}

func lenienceOf(list, old []webhook) lenience {
	l := lenience{conditions: len(list) == len(old)}
	names := map[string]bool{}
	for i, h := range old {
		l.conditions = l.conditions && reflect.DeepEqual(list[i].MatchConditions, h.MatchConditions)
		l.sideEffects = l.sideEffects || h.SideEffects == nil || !slices.Contains(harmless(), *h.SideEffects)
		l.versions = l.versions || len(h.AdmissionReviewVersions) > 0 && !slices.ContainsFunc(h.AdmissionReviewVersions, reviewed)
		l.names = l.names || names[h.Name]
		names[h.Name] = true
		for _, selector := range []*metav1.LabelSelector{h.NamespaceSelector, h.ObjectSelector} {
			if selector != nil && len(metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, nil)) > 0 {
				l.selectors = true
			}
		}
	}
	return l
}

// harmless returns the side effects that new webhooks may have.
func harmless() []admissionregistrationv1.SideEffectClass {
	return []admissionregistrationv1.SideEffectClass{admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.SideEffectClassNoneOnDryRun}
}

// reviewed reports whether a version of admission reviews is one that the apiserver sends.
func reviewed(version string) bool { return version == "v1" || version == "v1beta1" }

func (v validator) webhooks(list, old []webhook, reinvocation []*admissionregistrationv1.ReinvocationPolicyType, l lenience) field.ErrorList {
	var errs field.ErrorList
	c := &compilation{validator: v, known: known{}}
	for i := range old {
		for _, m := range old[i].MatchConditions {
			c.known.add(condition, m.Expression)
		}
	}
	names := map[string]bool{}
	for i := range list {
		h, at := &list[i], field.NewPath("webhooks").Index(i)
		errs = append(errs, c.hook(h, at, l)...)
		if i < len(reinvocation) && reinvocation[i] != nil {
			errs = append(errs, one(*reinvocation[i], at.Child("reinvocationPolicy"),
				admissionregistrationv1.IfNeededReinvocationPolicy, admissionregistrationv1.NeverReinvocationPolicy)...)
		}
		errs = append(errs, reviewVersions(h.AdmissionReviewVersions, l.versions, at.Child("admissionReviewVersions"))...)
		if names[h.Name] && h.Name != "" && !l.names {
			errs = append(errs, field.Duplicate(at.Child("name"), h.Name))
		}
		names[h.Name] = true
	}
	return errs
}

func (c *compilation) hook(h *webhook, at *field.Path, l lenience) field.ErrorList {
	errs := validation.IsFullyQualifiedName(at.Child("name"), h.Name)
	for i := range h.Rules {
		errs = append(errs, rule(&h.Rules[i], at.Child("rules").Index(i))...)
	}
	if h.FailurePolicy != nil {
		errs = append(errs, one(*h.FailurePolicy, at.Child("failurePolicy"), admissionregistrationv1.Fail, admissionregistrationv1.Ignore)...)
	}
	if h.MatchPolicy != nil {
		errs = append(errs, one(*h.MatchPolicy, at.Child("matchPolicy"), admissionregistrationv1.Equivalent, admissionregistrationv1.Exact)...)
	}
	errs = append(errs, sideEffects(h.SideEffects, l.sideEffects, at.Child("sideEffects"))...)
	if seconds := h.TimeoutSeconds; seconds != nil && (*seconds < 1 || *seconds > 30) {
		errs = append(errs, field.Invalid(at.Child("timeoutSeconds"), *seconds, "the timeout value must be between 1 and 30 seconds"))
	}
	options := metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: l.selectors}
	errs = append(errs, metav1validation.ValidateLabelSelector(h.NamespaceSelector, options, at.Child("namespaceSelector"))...)
	errs = append(errs, metav1validation.ValidateLabelSelector(h.ObjectSelector, options, at.Child("objectSelector"))...)
	errs = append(errs, client(&h.ClientConfig, at.Child("clientConfig"))...)
	if !l.conditions {
		errs = append(errs, c.matchConditions(h.MatchConditions, at.Child("matchConditions"))...)
	}
	return errs
}

func sideEffects(class *admissionregistrationv1.SideEffectClass, anyClass bool, at *field.Path) field.ErrorList {
	known := harmless()
	if anyClass {
		known = append(known, admissionregistrationv1.SideEffectClassSome, admissionregistrationv1.SideEffectClassUnknown)
	}
	if class != nil {
		return one(*class, at, known...)
	}
	var names []string
	for _, class := range known {
		names = append(names, string(class))
	}
	return field.ErrorList{field.Required(at, "must specify one of "+strings.Join(names, ", "))}
}

func reviewVersions(versions []string, anyVersion bool, at *field.Path) field.ErrorList {
	const known = "v1, v1beta1"
	if len(versions) == 0 {
		return field.ErrorList{field.Required(at, "must specify one of "+known)}
	}
	var errs field.ErrorList
	for i, version := range versions {
		if slices.Contains(versions[:i], version) {
			errs = append(errs, field.Invalid(at.Index(i), version, "duplicate version"))
			continue
		}
		for _, msg := range validation.IsDNS1035Label(version) {
			errs = append(errs, field.Invalid(at.Index(i), version, msg))
		}
	}
	if !anyVersion && !slices.ContainsFunc(versions, reviewed) {
		errs = append(errs, field.Invalid(at, versions, "must include at least one of "+known))
	}
	return errs
}

// client checks how a webhook is called: by a URL or as a service.
func client(c *admissionregistrationv1.WebhookClientConfig, at *field.Path) field.ErrorList {
	switch {
	case (c.URL == nil) == (c.Service == nil):
		return field.ErrorList{field.Required(at, "exactly one of url or service is required")}
	case c.URL != nil:
		return address(*c.URL, at.Child("url"))
	}
	at = at.Child("service")
	var errs field.ErrorList
	// Kubernetes swaps the two field paths.
	if c.Service.Namespace == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	}
	if c.Service.Name == "" {
		errs = append(errs, field.Required(at.Child("namespace"), ""))
	}
	port := int32(0)
	if c.Service.Port != nil {
		port = *c.Service.Port
	}
	if msgs := validation.IsValidPortNum(int(port)); len(msgs) > 0 {
		errs = append(errs, field.Invalid(at.Child("port"), port, "port is not valid: "+strings.Join(msgs, ", ")))
	}
	if path := c.Service.Path; path != nil {
		errs = append(errs, servicePath(*path, at.Child("path"))...)
	}
	return errs
}

func address(text string, at *field.Path) field.ErrorList {
	const form = "; desired format: https://host[/path]"
	u, err := url.Parse(text)
	if err != nil {
		return field.ErrorList{field.Required(at, "url must be a valid URL: "+err.Error()+form)}
	}
	var errs field.ErrorList
	if u.Scheme != "https" {
		errs = append(errs, field.Invalid(at, u.Scheme, "'https' is the only allowed URL scheme"+form))
	}
	if u.Host == "" {
		errs = append(errs, field.Invalid(at, u.Host, "host must be specified"+form))
	}
	if u.User != nil {
		errs = append(errs, field.Invalid(at, u.User.String(), "user information is not permitted in the URL"))
	}
	if u.Fragment != "" {
		errs = append(errs, field.Invalid(at, u.Fragment, "fragments are not permitted in the URL"))
	}
	if u.RawQuery != "" {
		errs = append(errs, field.Invalid(at, u.RawQuery, "query parameters are not permitted in the URL"))
	}
	return errs
}

func servicePath(path string, at *field.Path) field.ErrorList {
	switch path {
	case "", "/":
		return nil
	case "//":
		return field.ErrorList{field.Invalid(at, path, "segment[0] may not be empty")}
	}
	var errs field.ErrorList
	if !strings.HasPrefix(path, "/") {
		errs = append(errs, field.Invalid(at, path, "must start with a '/'"))
	}
	for i, segment := range strings.Split(strings.TrimSuffix(path[1:], "/"), "/") {
		if segment == "" {
			errs = append(errs, field.Invalid(at, path, fmt.Sprintf("segment[%d] may not be empty", i)))
			continue
		}
		for _, msg := range validation.IsDNS1123Subdomain(segment) {
			errs = append(errs, field.Invalid(at, path, fmt.Sprintf("segment[%d]: %v", i, msg)))
		}
	}
	return errs
}

func failurePolicy(policy *admissionregistrationv1.FailurePolicyType, at *field.Path) field.ErrorList {
	if policy == nil {
		return field.ErrorList{field.Required(at, "")}
	}
	return one(*policy, at, admissionregistrationv1.Fail, admissionregistrationv1.Ignore)
}
