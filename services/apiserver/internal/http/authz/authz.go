// Package authz decides what users may do. It reads from a request what the request wants to do,
// asks the authorizers in their order, and words refusals as Kubernetes does. The authorizers that
// read objects are in the packages below this one.
package authz

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
)

// Attributes are what a request wants to do.
type Attributes struct {
	// Verb is Kubernetes' name of the operation, or the lower-case HTTP method for paths that are
	// not resources.
	Verb string
	// Path is set for a path that is not a resource; the fields below are then empty.
	Path string
	// NonResource marks a request for Path even if Path is empty, as it may be in a
	// SubjectAccessReview.
	NonResource bool
	// Group, Version, Resource, Subresource, Namespace and Name identify the target.
	Group, Version, Resource, Subresource string
	Namespace, Name                       string
	// Fields and Labels are the requirements of the request's selectors, if it has any and they can
	// be parsed. Authorizers may let them narrow a request. FieldsErr and LabelsErr say why a
	// selector cannot be parsed.
	Fields               fields.Requirements
	Labels               labels.Requirements
	FieldsErr, LabelsErr error
}

// IsResource reports whether the request targets a resource rather than a path.
func (a Attributes) IsResource() bool { return a.Path == "" && !a.NonResource }

// Decision is an authorizer's decision.
type Decision int

const (
	// NoOpinion leaves the decision to the authorizers that follow. If none of them allows the
	// request, it is refused.
	NoOpinion Decision = iota
	// Allow is final.
	Allow
	// Deny is final.
	Deny
)

// Authorizer decides whether user may do a. The string is the reason, which the user may see. An
// error with another decision than Allow is an internal error.
type Authorizer interface {
	Authorize(ctx context.Context, user authn.User, a Attributes) (Decision, string, error)
}

// RuleResolver lists what a user may do in a namespace, as far as that can be listed.
type RuleResolver interface {
	// Rules returns the rules. incomplete reports that the list leaves some out.
	Rules(ctx context.Context, user authn.User, namespace string) (resources []authorizationv1.ResourceRule,
		paths []authorizationv1.NonResourceRule, incomplete bool, err error)
}

// Union asks one authorizer after the other until one decides.
type Union []Authorizer

// Authorize returns the first decision. If there is none, it returns all reasons, one per line, as
// Kubernetes joins them.
func (u Union) Authorize(ctx context.Context, user authn.User, a Attributes) (Decision, string, error) {
	var reasons []string
	var errs []error
	for _, authorizer := range u {
		decision, reason, err := authorizer.Authorize(ctx, user, a)
		if decision != NoOpinion {
			return decision, reason, err
		}
		if err != nil {
			errs = append(errs, err)
		}
		if reason != "" {
			reasons = append(reasons, reason)
		}
	}
	return NoOpinion, strings.Join(reasons, "\n"), utilerrors.NewAggregate(errs)
}

// Rules joins the rules of the authorizers that can list them.
func (u Union) Rules(ctx context.Context, user authn.User, namespace string) (
	resources []authorizationv1.ResourceRule, paths []authorizationv1.NonResourceRule, incomplete bool, err error,
) {
	var errs []error
	for _, authorizer := range u {
		resolver, ok := authorizer.(RuleResolver)
		if !ok {
			continue
		}
		moreResources, morePaths, some, err := resolver.Rules(ctx, user, namespace)
		resources, paths = append(resources, moreResources...), append(paths, morePaths...)
		incomplete = incomplete || some
		if err != nil {
			errs = append(errs, err)
		}
	}
	return resources, paths, incomplete, utilerrors.NewAggregate(errs)
}

// Masters allows the group system:masters everything, whatever roles exist, so that a plane without
// roles can be repaired.
type Masters struct{}

// Authorize allows members of system:masters everything.
func (Masters) Authorize(_ context.Context, user authn.User, _ Attributes) (Decision, string, error) {
	if slices.Contains(user.Groups, authn.GroupMasters) {
		return Allow, "", nil
	}
	return NoOpinion, "", nil
}

// Check returns nil if user may do a. Otherwise it returns Kubernetes' refusal with the reason, or
// an internal error if the authorizer could not decide.
func Check(ctx context.Context, authorizer Authorizer, user authn.User, a Attributes) error {
	decision, reason, err := authorizer.Authorize(ctx, user, a)
	if decision == Allow {
		return nil
	}
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("authorizing %s %s: %w", a.Verb, a.Resource+a.Path, err))
	}
	return Forbidden(user, a, reason)
}

// harmless keeps a refusal from being read as HTML.
var harmless = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// Forbidden returns Kubernetes' refusal.
func Forbidden(user authn.User, a Attributes, reason string) error {
	message := harmless.Replace(refusal(user, a))
	if reason != "" {
		message += ": " + reason
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: a.Group, Resource: a.Resource}, a.Name, errors.New(message))
}

func refusal(user authn.User, a Attributes) string {
	if !a.IsResource() {
		return fmt.Sprintf("User %q cannot %s path %q", user.Name, a.Verb, a.Path)
	}
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	where := "at the cluster scope"
	if a.Namespace != "" {
		where = fmt.Sprintf("in the namespace %q", a.Namespace)
	}
	return fmt.Sprintf("User %q cannot %s resource %q in API group %q %s", user.Name, a.Verb, resource, a.Group, where)
}
