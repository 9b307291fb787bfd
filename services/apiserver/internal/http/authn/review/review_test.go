package review_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"go.uber.org/goleak"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn/review"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tokens accepts one token, for the audiences api and vault, and knows one that has expired.
type tokens struct{}

func (tokens) Token(_ context.Context, token string, audiences []string) (authn.Result, bool, error) {
	switch token {
	case "good":
		var both []string
		for _, audience := range []string{"api", "vault"} {
			if slices.Contains(audiences, audience) {
				both = append(both, audience)
			}
		}
		user := authn.User{Name: "alice", UID: "1", Groups: []string{"dev"}, Extra: map[string][]string{"k": {"v"}}}
		return authn.Result{User: user, Audiences: both}, len(both) > 0, nil
	case "old":
		return authn.Result{}, false, errors.New("it has expired")
	}
	return authn.Result{}, false, nil
}

func TestTokenReview(t *testing.T) {
	ask := review.Token(authn.New(authn.Config{Tokens: []authn.Tokens{tokens{}}, Audiences: []string{"api"}}))
	for name, c := range map[string]struct {
		token     string
		audiences []string
		want      []string // audiences; nil if not authenticated
		failure   string
	}{
		"the API's audience": {"good", nil, []string{"api"}, ""},
		"another audience":   {"good", []string{"vault", "x"}, []string{"vault"}, ""},
		"no common audience": {"good", []string{"x"}, nil, "invalid bearer token"},
		"an expired token":   {"old", nil, nil, "it has expired"},
		"an unknown token":   {"bad", nil, nil, "invalid bearer token"},
		"a leading space":    {" good", nil, nil, "invalid bearer token"},
	} {
		asked := &authenticationv1.TokenReview{
			Spec:   authenticationv1.TokenReviewSpec{Token: c.token, Audiences: c.audiences},
			Status: authenticationv1.TokenReviewStatus{Authenticated: true, Error: "of the client"},
		}
		answered, err := ask(t.Context(), "", asked)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, ok := answered.(*authenticationv1.TokenReview)
		if !ok {
			t.Fatalf("%s: %T", name, answered)
		}
		status := got.Status
		if status.Authenticated != (c.want != nil) || status.Error != c.failure || !slices.Equal(status.Audiences, c.want) {
			t.Errorf("%s: got status %+v", name, status)
		}
		if c.want == nil && (status.User.Username != "" || len(status.User.Groups) > 0) {
			t.Errorf("%s: an unauthenticated status names the user %+v", name, status.User)
		}
		if c.want != nil && (status.User.Username != "alice" || status.User.UID != "1" || status.User.Extra["k"][0] != "v" ||
			!slices.Equal(status.User.Groups, []string{"dev", "system:authenticated"})) {
			t.Errorf("%s: got user %+v", name, status.User)
		}
		if got.Spec.Token != c.token {
			t.Errorf("%s: got token %q", name, got.Spec.Token)
		}
	}
	for _, obj := range []*authenticationv1.TokenReview{{}} {
		if _, err := ask(t.Context(), "", obj); !apierrors.IsBadRequest(err) || err.Error() != "token is required for TokenReview in authentication" {
			t.Errorf("without a token: %v", err)
		}
	}
	if _, err := ask(t.Context(), "", &corev1.Pod{}); !apierrors.IsBadRequest(err) {
		t.Errorf("a pod: %v", err)
	}
}

func TestSelfSubjectReview(t *testing.T) {
	ctx := authn.WithUser(t.Context(), authn.User{Name: "alice", UID: "1", Groups: []string{"dev"}, Extra: map[string][]string{"k": {"v"}}})
	answered, err := review.Self(ctx, "", &authenticationv1.SelfSubjectReview{})
	if err != nil {
		t.Fatal(err)
	}
	got, ok := answered.(*authenticationv1.SelfSubjectReview)
	if !ok || got.CreationTimestamp.IsZero() || got.Status.UserInfo.Username != "alice" || got.Status.UserInfo.UID != "1" ||
		!slices.Equal(got.Status.UserInfo.Groups, []string{"dev"}) || got.Status.UserInfo.Extra["k"][0] != "v" {
		t.Errorf("got %+v", answered)
	}
	if _, err := review.Self(t.Context(), "", &authenticationv1.SelfSubjectReview{}); !apierrors.IsBadRequest(err) {
		t.Errorf("without a user: %v", err)
	}
	if _, err := review.Self(ctx, "", &corev1.Pod{}); !apierrors.IsBadRequest(err) {
		t.Errorf("a pod: %v", err)
	}
}
