package policies

import (
	"context"
	"errors"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	k8sadmission "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
)

// criteria decide which requests a policy or a binding matches. nil criteria match every request.
type criteria struct {
	namespaces, objects labels.Selector
	namespacesErr       error
	objectsErr          error
	rules, excluded     []admissionregistrationv1.NamedRuleWithOperations
	equivalent          bool
	err                 error // What is wrong with the criteria themselves.
}

// matched is the form of a request that a policy matches: the request's own, or an equivalent one.
type matched struct {
	resource schema.GroupVersionResource
	kind     schema.GroupVersionKind
}

func newCriteria(match *admissionregistrationv1.MatchResources) *criteria {
	c := &criteria{
		rules: match.ResourceRules, excluded: match.ExcludeResourceRules,
		equivalent: match.MatchPolicy != nil && *match.MatchPolicy != admissionregistrationv1.Exact,
	}
	switch {
	case match.NamespaceSelector == nil:
		c.err = errors.New("a nil namespace selector was passed, please ensure selectors are initialized properly")
	case match.ObjectSelector == nil:
		c.err = errors.New("a nil object selector was passed, please ensure selectors are initialized properly")
	default:
		c.namespaces, c.namespacesErr = selectorOf(match.NamespaceSelector)
		c.objects, c.objectsErr = selectorOf(match.ObjectSelector)
	}
	return c
}

func selectorOf(selector *metav1.LabelSelector) (labels.Selector, error) {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return parsed, nil
}

// match reports whether the criteria match a request, and in which form. What cannot be decided is an
// error only if everything else matches.
func (e *engine) match(ctx context.Context, c *criteria, req *admission.Request, a k8sadmission.Attributes) (form matched, ok bool, err error) {
	own := matched{a.GetResource(), a.GetKind()}
	if c == nil {
		return own, true, nil
	}
	if c.err != nil {
		return matched{}, false, c.err
	}
	_, excluded, rulesErr := e.matchRules(c.excluded, c.equivalent, a)
	if excluded {
		return matched{}, false, nil
	}
	form, ok = own, true
	if rulesErr == nil && len(c.rules) > 0 {
		form, ok, rulesErr = e.matchRules(c.rules, c.equivalent, a)
	}
	if !ok && rulesErr == nil {
		return matched{}, false, nil
	}
	inNamespace, namespaceErr := e.matchNamespace(ctx, c, req, a)
	object, objectErr := matchObject(c, req)
	if !inNamespace && namespaceErr == nil || !object && objectErr == nil {
		return matched{}, false, nil
	}
	for _, err := range []error{rulesErr, namespaceErr, objectErr} {
		if err != nil {
			return matched{}, false, err
		}
	}
	return form, true, nil
}

func (e *engine) matchNamespace(ctx context.Context, c *criteria, req *admission.Request, a k8sadmission.Attributes) (bool, error) {
	isNamespace := a.GetResource().Resource == "namespaces"
	switch {
	case a.GetNamespace() == "" && !isNamespace:
		return true, nil
	case c.namespacesErr != nil:
		return false, c.namespacesErr
	case c.namespaces.Empty():
		return true, nil
	case isNamespace && req.Subresource == "" && req.Verb != admission.Delete:
		return c.namespaces.Matches(labels.Set(req.Object.GetLabels())), nil
	}
	namespace, err := admission.Get[*corev1.Namespace](ctx, e.objects, "", a.GetNamespace())
	if err != nil {
		return false, err
	}
	return c.namespaces.Matches(labels.Set(namespace.Labels)), nil
}

func matchObject(c *criteria, req *admission.Request) (bool, error) {
	switch {
	case c.objectsErr != nil:
		return false, c.objectsErr
	case c.objects.Empty():
		return true, nil
	}
	return req.Object != nil && c.objects.Matches(labels.Set(req.Object.GetLabels())) ||
		req.Old != nil && c.objects.Matches(labels.Set(req.Old.GetLabels())), nil
}

// matchRules reports whether one of the rules matches a request as it is or, if it may, in an equivalent
// form.
func (e *engine) matchRules(
	named []admissionregistrationv1.NamedRuleWithOperations, equivalent bool, a k8sadmission.Attributes,
) (matched, bool, error) {
	for i := range named {
		if matchRule(&named[i], a) {
			return matched{a.GetResource(), a.GetKind()}, true, nil
		}
	}
	if !equivalent || len(named) == 0 {
		return matched{}, false, nil
	}
	others := e.equivalents.Get()
	for i := range named {
		for _, resource := range others.EquivalentResourcesFor(a.GetResource(), a.GetSubresource()) {
			if resource == a.GetResource() || !matchRule(&named[i], another{a, resource}) {
				continue
			}
			kind := others.KindFor(resource, a.GetSubresource())
			if kind.Empty() {
				return matched{}, false, fmt.Errorf("unable to convert to %v: unknown kind", resource)
			}
			return matched{resource, kind}, true, nil
		}
	}
	return matched{}, false, nil
}

func matchRule(rule *admissionregistrationv1.NamedRuleWithOperations, a k8sadmission.Attributes) bool {
	matcher := rules.Matcher{Rule: rule.RuleWithOperations, Attr: a}
	return matcher.Matches() && (len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, a.GetName()))
}

// another is a request for another resource.
type another struct {
	k8sadmission.Attributes
	resource schema.GroupVersionResource
}

func (a another) GetResource() schema.GroupVersionResource { return a.resource }
