// Package review answers questions about what users may do: the SubjectAccessReview kinds and
// SelfSubjectRulesReview, which kubectl auth can-i and delegating servers ask.
package review

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

// Authorizer makes decisions, and lists the rules that can be listed.
type Authorizer interface {
	authz.Authorizer
	authz.RuleResolver
}

// Answer answers a review of one of the kinds. It may change obj and return it. Its errors are
// apierrors.
type Answer func(ctx context.Context, namespace string, obj scheme.Object) (scheme.Object, error)

// Answers returns the Answer of each of the four kinds.
func Answers(authorizer Authorizer) map[schema.GroupVersionKind]Answer {
	of := authorizationv1.SchemeGroupVersion.WithKind
	return map[schema.GroupVersionKind]Answer{
		of("SubjectAccessReview"):      subject(authorizer),
		of("LocalSubjectAccessReview"): local(authorizer),
		of("SelfSubjectAccessReview"):  self(authorizer),
		of("SelfSubjectRulesReview"):   rules(authorizer),
	}
}

func subject(authorizer Authorizer) Answer {
	return func(ctx context.Context, _ string, obj scheme.Object) (scheme.Object, error) {
		review, ok := obj.(*authorizationv1.SubjectAccessReview)
		if !ok {
			return nil, unexpected("SubjectAccessReview", obj)
		}
		errs := validateSpec(&review.Spec)
		if errs = append(errs, validateMeta(&review.ObjectMeta, false)...); len(errs) > 0 {
			return nil, invalid(errs)
		}
		review.Status = ask(ctx, authorizer, userOf(&review.Spec), attributes(review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes))
		return review, nil
	}
}

func local(authorizer Authorizer) Answer {
	return func(ctx context.Context, namespace string, obj scheme.Object) (scheme.Object, error) {
		review, ok := obj.(*authorizationv1.LocalSubjectAccessReview)
		if !ok {
			return nil, unexpected("LocalSubjectAccessReview", obj)
		}
		if errs := validateLocal(review); len(errs) > 0 {
			return nil, invalid(errs)
		}
		if namespace == "" {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("namespace is required on this type: %v", namespace))
		}
		if namespace != review.Namespace {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("spec.resourceAttributes.namespace must match namespace: %v", namespace))
		}
		review.Status = ask(ctx, authorizer, userOf(&review.Spec), attributes(review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes))
		return review, nil
	}
}

func self(authorizer Authorizer) Answer {
	return func(ctx context.Context, _ string, obj scheme.Object) (scheme.Object, error) {
		review, ok := obj.(*authorizationv1.SelfSubjectAccessReview)
		if !ok {
			return nil, unexpected("SelfSubjectAccessReview", obj)
		}
		errs := validateAttributes(review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes)
		if errs = append(errs, validateMeta(&review.ObjectMeta, false)...); len(errs) > 0 {
			return nil, invalid(errs)
		}
		user, ok := authn.UserFrom(ctx)
		if !ok {
			return nil, apierrors.NewBadRequest("no user present on request")
		}
		review.Status = ask(ctx, authorizer, user, attributes(review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes))
		return review, nil
	}
}

func rules(authorizer Authorizer) Answer {
	return func(ctx context.Context, _ string, obj scheme.Object) (scheme.Object, error) {
		review, ok := obj.(*authorizationv1.SelfSubjectRulesReview)
		if !ok {
			return nil, unexpected("SelfSubjectRulesReview", obj)
		}
		user, ok := authn.UserFrom(ctx)
		if !ok {
			return nil, apierrors.NewBadRequest("no user present on request")
		}
		if review.Spec.Namespace == "" {
			return nil, apierrors.NewBadRequest("no namespace on request")
		}
		resources, paths, incomplete, err := authorizer.Rules(ctx, user, review.Spec.Namespace)
		answer := &authorizationv1.SelfSubjectRulesReview{Status: authorizationv1.SubjectRulesReviewStatus{
			// Kubernetes encodes no rules as an empty list.
			ResourceRules:    append([]authorizationv1.ResourceRule{}, resources...),
			NonResourceRules: append([]authorizationv1.NonResourceRule{}, paths...),
			Incomplete:       incomplete,
		}}
		if err != nil {
			answer.Status.EvaluationError = err.Error()
		}
		return answer, nil
	}
}

// ask returns the authorizer's decision as a status.
func ask(ctx context.Context, authorizer Authorizer, user authn.User, a authz.Attributes) authorizationv1.SubjectAccessReviewStatus {
	decision, reason, err := authorizer.Authorize(ctx, user, a)
	var problems []string
	if err != nil {
		problems = append(problems, err.Error())
	}
	problems = append(problems, ignored("fieldSelector", len(a.Fields), a.FieldsErr)...)
	problems = append(problems, ignored("labelSelector", len(a.Labels), a.LabelsErr)...)
	return authorizationv1.SubjectAccessReviewStatus{
		Allowed: decision == authz.Allow, Denied: decision == authz.Deny, Reason: reason, EvaluationError: strings.Join(problems, "; "),
	}
}

// ignored reports that a selector, or a part of it, was ignored.
func ignored(selector string, understood int, err error) []string {
	switch {
	case err == nil:
		return nil
	case understood > 0:
		return []string{"spec.resourceAttributes." + selector + " partially ignored due to parse error"}
	}
	return []string{"spec.resourceAttributes." + selector + " ignored due to parse error"}
}

func userOf(spec *authorizationv1.SubjectAccessReviewSpec) authn.User {
	user := authn.User{Name: spec.User, UID: spec.UID, Groups: spec.Groups}
	if spec.Extra != nil {
		user.Extra = map[string][]string{}
		for key, values := range spec.Extra {
			user.Extra[key] = values
		}
	}
	return user
}

func unexpected(kind string, obj scheme.Object) error {
	return apierrors.NewBadRequest(fmt.Sprintf("not a %s: %T", kind, obj))
}

// invalid returns Kubernetes' error, which names the group but no kind.
func invalid(errs field.ErrorList) error {
	return apierrors.NewInvalid(schema.GroupKind{Group: authorizationv1.GroupName}, "", errs)
}
