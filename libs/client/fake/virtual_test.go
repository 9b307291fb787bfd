package fake

import (
	"errors"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
)

func TestReviews(t *testing.T) {
	c := New(scheme.New())
	reviews := client.Of[*authorizationv1.SubjectAccessReview](c)
	question := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "me"}}
	if _, err := reviews.Create(t.Context(), question, metav1.CreateOptions{}); !apierrors.IsMethodNotSupported(err) {
		t.Errorf("without a function: %v", err)
	}
	c.OnReview(func(question scheme.Object) error {
		review := question.(*authorizationv1.SubjectAccessReview)
		if review.Spec.User != "me" {
			return errors.New("who?")
		}
		review.Status.Allowed = true
		return nil
	})
	answer, err := reviews.Create(t.Context(), question, metav1.CreateOptions{})
	if err != nil || !answer.Status.Allowed || question.Status.Allowed {
		t.Errorf("answer %+v, %v; question %+v", answer, err, question)
	}
	question.Spec.User = "you"
	if _, err := reviews.Create(t.Context(), question, metav1.CreateOptions{}); err == nil {
		t.Error("no error")
	}
}

func TestApproval(t *testing.T) {
	c := New(scheme.New())
	requests := client.Of[*certificatesv1.CertificateSigningRequest](c)
	request, err := requests.Create(t.Context(), &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: "s"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	request.Spec.SignerName, request.Status.Certificate = "other", []byte("forged")
	request.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue}}
	got, err := requests.UpdateSubresource(t.Context(), request, "approval", metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Status.Conditions) != 1 || got.Status.Conditions[0].LastUpdateTime.IsZero() || got.Spec.SignerName != "s" || got.Status.Certificate != nil {
		t.Errorf("got %+v", got)
	}
}
