// Package review answers TokenReviews, which authenticate a token, and SelfSubjectReviews, which
// return the caller's own identity.
package review

import (
	"context"
	"fmt"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/http/audit"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
)

// Token answers TokenReviews with authenticator. An invalid token is not an error: the review's
// status says why it is invalid. What the token says for the audit log and for the client is passed on to
// the review's own. Unlike in Kubernetes, a token that begins with a space is not a
// token of the anonymous user.
func Token(authenticator *authn.Authenticator) func(context.Context, string, scheme.Object) (scheme.Object, error) {
	return func(ctx context.Context, _ string, obj scheme.Object) (scheme.Object, error) {
		review, ok := obj.(*authenticationv1.TokenReview)
		if !ok {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("not a TokenReview: %T", obj))
		}
		if review.Spec.Token == "" {
			return nil, apierrors.NewBadRequest("token is required for TokenReview in authentication")
		}
		audiences := review.Spec.Audiences
		if len(audiences) == 0 {
			audiences = authenticator.Audiences()
		}
		review = review.DeepCopy()
		review.Status = authenticationv1.TokenReviewStatus{}
		result, ok, err := authenticator.Token(ctx, review.Spec.Token, audiences)
		for key, value := range result.Annotations {
			audit.From(ctx).Annotate(key, value)
		}
		admission.Warn(ctx, result.Warnings...)
		if err != nil {
			review.Status.Error = err.Error()
		}
		if ok {
			review.Status.Authenticated, review.Status.User = true, userInfo(result.User)
			review.Status.Audiences = slices.Clone(result.Audiences)
		}
		return review, nil
	}
}

// Self answers SelfSubjectReviews.
func Self(ctx context.Context, _ string, obj scheme.Object) (scheme.Object, error) {
	if _, ok := obj.(*authenticationv1.SelfSubjectReview); !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a SelfSubjectReview: %T", obj))
	}
	user, ok := authn.UserFrom(ctx)
	if !ok {
		return nil, apierrors.NewBadRequest("no user present on request")
	}
	return &authenticationv1.SelfSubjectReview{
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Now().Rfc3339Copy()},
		Status:     authenticationv1.SelfSubjectReviewStatus{UserInfo: userInfo(user)},
	}, nil
}

// userInfo converts a user to the API's type.
func userInfo(user authn.User) authenticationv1.UserInfo {
	info := authenticationv1.UserInfo{Username: user.Name, UID: user.UID, Groups: slices.Clone(user.Groups)}
	for key, values := range user.Extra {
		if info.Extra == nil {
			info.Extra = map[string]authenticationv1.ExtraValue{}
		}
		info.Extra[key] = slices.Clone(values)
	}
	return info
}
