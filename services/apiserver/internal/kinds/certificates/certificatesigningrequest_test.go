package certificates

import (
	"slices"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
)

func TestCertificateRequester(t *testing.T) {
	s := CertificateSigningRequest()
	c := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
		Username: "forged", UID: "1", Groups: []string{"system:masters"}, Extra: map[string]certificatesv1.ExtraValue{"a": {"b"}},
	}}
	c.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: "Approved"}}
	s.PrepareForCreate(c)
	if c.Spec.Username != "" || c.Spec.UID != "" || c.Spec.Groups != nil || c.Spec.Extra != nil || c.Status.Conditions != nil {
		t.Errorf("the client's forged requester remains: %+v", c)
	}
	user := authn.User{Name: "ann", UID: "7", Groups: []string{"devs"}, Extra: map[string][]string{"x": {"y", "z"}}}
	s.Author(c, user)
	if c.Spec.Username != "ann" || c.Spec.UID != "7" || !slices.Equal(c.Spec.Groups, user.Groups) || !slices.Equal(c.Spec.Extra["x"], user.Extra["x"]) {
		t.Errorf("got requester %+v", c.Spec)
	}
}

func TestCertificateSubresources(t *testing.T) {
	s := CertificateSigningRequest()
	past := metav1.NewTime(time.Unix(1e9, 0))
	approved := certificatesv1.CertificateSigningRequestCondition{Type: "Approved", Status: "True", Reason: "Fine", LastUpdateTime: past, LastTransitionTime: past}
	old := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: "a.b/c"}}
	old.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{approved}

	c := old.DeepCopy()
	c.Spec.SignerName = "x.y/z"
	c.Status.Certificate = []byte("x")
	c.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: "Odd", Status: "True"}, {Type: "Approved", Status: "True", Reason: "Changed"}}
	s.Subresources["status"].Prepare(c, old)
	odd := c.Status.Conditions[0]
	if c.Spec.SignerName != "a.b/c" || string(c.Status.Certificate) != "x" || c.Status.Conditions[1] != approved || odd.LastUpdateTime.IsZero() || odd.LastTransitionTime.IsZero() {
		t.Errorf("status update: got %+v", c)
	}

	c = old.DeepCopy()
	c.Status.Certificate = []byte("x")
	c.Status.Conditions[0] = certificatesv1.CertificateSigningRequestCondition{Type: "Approved", Status: "True", Reason: "Again"}
	s.Subresources["approval"].Prepare(c, old)
	again := c.Status.Conditions[0]
	if c.Status.Certificate != nil || again.Reason != "Again" || again.LastUpdateTime.IsZero() || again.LastUpdateTime.Equal(&past) || !again.LastTransitionTime.Equal(&past) {
		t.Errorf("approval: got %+v", c)
	}

	c = old.DeepCopy()
	c.Labels, c.Spec.SignerName, c.Status.Certificate = map[string]string{"a": "b"}, "x.y/z", []byte("x")
	s.Update.Prepare(c, old)
	if c.Labels["a"] != "b" || !equality.Semantic.DeepEqual(c.Spec, old.Spec) || !equality.Semantic.DeepEqual(c.Status, old.Status) {
		t.Errorf("update: got %+v", c)
	}
}
