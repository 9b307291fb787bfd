// Package authz decides who may do what: it reads from a request what that wants, asks the
// authorizers in their order, and words refusals as Kubernetes does. The authorizers that read
// objects are in packages below.
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
	// Verb is Kubernetes' name of the operation, or the lower-case HTTP method for paths that
	// are no resources.
	Verb string
	// Path is set for what is no resource; the rest is then empty.
	Path string
	// NonResource says that the request is about Path even if that is empty, as it may be in a
	// SubjectAccessReview.
	NonResource bool
	// Group, Version, Resource, Subresource, Namespace and Name say on what.
	Group, Version, Resource, Subresource string
	Namespace, Name                       string
	// Fields and Labels are what the request's selectors demand, if it has any and they can be
	// read; authorizers may let them narrow a request. FieldsErr and LabelsErr say why they
	// cannot be read.
	Fields               fields.Requirements
	Labels               labels.Requirements
	FieldsErr, LabelsErr error
}

// IsResource says whether a resource is wanted, not a path.
func (a Attributes) IsResource() bool { return a.Path == "" && !a.NonResource }

// Decision is what an authorizer says.
type Decision int

const (
	// NoOpinion leaves it to the authorizers that are asked later; if none allows, it is a
	// refusal.
	NoOpinion Decision = iota
	// Allow is final.
	Allow
	// Deny is final.
	Deny
)

// Authorizer decides whether user may do a. The string is the reason, for the user to see. An
// error with another decision than Allow is an internal error.
type Authorizer interface {
	Authorize(ctx context.Context, user authn.User, a Attributes) (Decision, string, error)
}

// RuleResolver lists what a user may do in a namespace, as far as that can be listed.
type RuleResolver interface {
	// Rules gives the rules, and whether they are not all.
	Rules(ctx context.Context, user authn.User, namespace string) (resources []authorizationv1.ResourceRule,
		paths []authorizationv1.NonResourceRule, incomplete bool, err error)
}

// Union asks one authorizer after the other until one decides.
type Union []Authorizer

// Authorize gives the first decision; if there is none, all reasons, one a line, as Kubernetes
// joins them.
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

// Rules joins what those authorizers list that can.
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

// Masters allows everything to the group system:masters, whatever roles there are, so that a
// plane without roles can be repaired.
type Masters struct{}

// Authorize allows the group everything.
func (Masters) Authorize(_ context.Context, user authn.User, _ Attributes) (Decision, string, error) {
	if slices.Contains(user.Groups, authn.GroupMasters) {
		return Allow, "", nil
	}
	return NoOpinion, "", nil
}

// Check gives nil if user may do a; else Kubernetes' refusal with the reason, or an internal
// error when it could not be decided.
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

// harmless keeps a refusal from looking like HTML.
var harmless = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// Forbidden is Kubernetes' refusal.
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
