package access_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/pki"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// TestTokenInSecret follows a token in a Secret: it authenticates, its Secret says when it was used, and it
// is void as soon as the Secret is marked or gone.
func TestTokenInSecret(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	ctx, admin := t.Context(), harness.Typed(t, s.Admin())
	account, err := admin.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	key, err := pki.ReadKey(filepath.Join(s.CertDir, "sa.key"), "")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const prefix = "kubernetes.io/serviceaccount/"
	token, err := jwt.Signed(signer).Claims(map[string]any{
		"iss": "kubernetes/serviceaccount", "sub": "system:serviceaccount:default:robot", prefix + "namespace": "default",
		prefix + "secret.name": "robot-token", prefix + "service-account.name": "robot", prefix + "service-account.uid": account.UID,
	}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	secrets := admin.CoreV1().Secrets("default")
	if _, err := secrets.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "robot-token", Annotations: map[string]string{corev1.ServiceAccountNameKey: "robot"}},
		Type:       corev1.SecretTypeServiceAccountToken, Data: map[string][]byte{corev1.ServiceAccountTokenKey: []byte(token)},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	robot := s.WithToken(token)
	user, err := whoami(t, robot)
	if err != nil || user.Username != "system:serviceaccount:default:robot" || user.UID != string(account.UID) {
		t.Fatalf("got %+v, %v", user, err)
	}
	used := func() error {
		secret, err := secrets.Get(ctx, "robot-token", metav1.GetOptions{})
		if err != nil {
			return err
		}
		day, err := time.Parse(time.DateOnly, secret.Labels["kubernetes.io/legacy-token-last-used"])
		if since := time.Since(day); err != nil || since < 0 || since > 48*time.Hour {
			return fmt.Errorf("the Secret has the labels %v: %w", secret.Labels, err)
		}
		return nil
	}
	harness.Await(t, "the day of the last use", used)
	review, err := admin.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil || !review.Status.Authenticated || review.Status.User.Username != user.Username {
		t.Errorf("the review is %+v, %v", review, err)
	}
	mark := func(patch string) {
		t.Helper()
		if _, err := secrets.Patch(ctx, "robot-token", "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	await := func(what string, valid bool) {
		t.Helper()
		harness.Eventually(t, what, func() bool {
			_, err := whoami(t, robot)
			return valid == (err == nil) && (valid || apierrors.IsUnauthorized(err))
		})
	}
	mark(`{"metadata":{"labels":{"kubernetes.io/legacy-token-invalid-since":"2026-01-01","kubernetes.io/legacy-token-last-used":null}}}`)
	await("the token of a Secret that is marked is refused", false)
	harness.Await(t, "the day of the last use of a refused token", used)
	mark(`{"metadata":{"labels":{"kubernetes.io/legacy-token-invalid-since":null}}}`)
	await("the token of a Secret that is no longer marked is accepted", true)
	if err := secrets.Delete(ctx, "robot-token", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await("the token of a deleted Secret is refused", false)
}
