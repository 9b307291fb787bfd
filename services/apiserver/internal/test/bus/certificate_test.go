package bus_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// nowhere is an address at which nothing listens.
const nowhere = "https://127.0.0.1:1"

// overNATS returns a client whose calls go over a connection, and over nothing else.
func overNATS(t *testing.T, config *rest.Config, by client.Transport, conn *bus.Conn, certified bool) kubernetes.Interface {
	t.Helper()
	config = rest.CopyConfig(config)
	config.Host = nowhere
	carried, end, err := client.WithTransport(t.Context(), config, client.Route{By: by, Conn: conn, Certified: certified}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	return harness.Typed(t, carried)
}

// TestCertificateOverNATS checks that requests over NATS without a credential are those of the user whose
// certificate the connection presents, with the same rights and the same credential as over HTTPS, and that
// those of a connection that presented a token are nobody's.
func TestCertificateOverNATS(t *testing.T) {
	t.Parallel()
	s := harness.StartWithTokens(t)
	config := s.Service("system:node:n1")
	conn := s.OnBus("system:node:n1")
	self := func(api kubernetes.Interface) authenticationv1.UserInfo {
		t.Helper()
		review, err := api.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return review.Status.UserInfo
	}
	want := self(harness.Typed(t, config))
	for _, by := range []client.Transport{client.TransportNATS, client.TransportAuto} {
		api := overNATS(t, config, by, conn, true)
		got := self(api)
		if got.Username != "system:node:n1" || got.String() != want.String() {
			t.Errorf("%s: the user is %v, over HTTPS %v", by, got, want)
		}
		if _, err := api.CoreV1().Secrets("kube-system").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("%s: listing Secrets: got %v", by, err)
		}
	}

	token := s.WithToken(harness.MasterToken)
	master := s.Bus.ConnectAs(client.BusConfig(token, bus.Config{Name: t.Name()}))
	bare := overNATS(t, rest.AnonymousClientConfig(token), client.TransportNATS, master, true)
	_, err := bare.CoreV1().Secrets("kube-system").List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "system:anonymous") {
		t.Errorf("a request without a token over a token's connection: got %v", err)
	}
}

// TestBootstrapTokenOverNATS checks that a client with a bootstrap token may send requests over NATS, as the
// token's user, that it may listen to nothing but the answers, and that its connection ends when the token is
// deleted.
func TestBootstrapTokenOverNATS(t *testing.T) {
	t.Parallel()
	s := harness.StartWithTokens(t)
	admin := harness.Typed(t, s.Admin())
	secret, err := admin.CoreV1().Secrets("kube-system").Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-abcdef"}, Type: corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node-bootstrapper"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:bootstrappers"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config := s.WithToken("abcdef.0123456789abcdef")
	conn := s.Bus.ConnectAs(client.BusConfig(config, bus.Config{Name: t.Name()}))
	api := overNATS(t, config, client.TransportNATS, conn, false)
	harness.Eventually(t, "the token's user may ask for certificates", func() bool {
		_, err := api.CertificatesV1().CertificateSigningRequests().Get(t.Context(), "x", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	_, err = api.CertificatesV1().CertificateSigningRequests().Create(t.Context(), &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "x"},
		Spec:       certificatesv1.CertificateSigningRequestSpec{SignerName: "x.io/y", Request: []byte("x"), Usages: []certificatesv1.KeyUsage{"client auth"}},
	}, metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) {
		t.Errorf("a request that is not one: got %v", err)
	}
	if _, err := api.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "system:bootstrap:abcdef") {
		t.Errorf("listing nodes: got %v", err)
	}
	for _, at := range []string{
		"gb.watch.>", "gb.watch.core.nodes.>", "gb.reports", "gb.trace", "gb.node.n1.>", "gb.api.>", "_INBOX.>", ">", "$SYS.>",
	} {
		if !harness.Denied(t, conn, at) {
			t.Errorf("it may subscribe to %s", at)
		}
	}
	groups := self(t, api)
	if !slices.Contains(groups, "system:bootstrappers") {
		t.Errorf("its groups are %v", groups)
	}
	if err := admin.CoreV1().Secrets("kube-system").Delete(context.WithoutCancel(t.Context()), secret.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the connection ends", func() bool { return !conn.Connected() })
}

// self returns the groups of a client's user.
func self(t *testing.T, api kubernetes.Interface) []string {
	t.Helper()
	review, err := api.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.UserInfo.Groups
}
