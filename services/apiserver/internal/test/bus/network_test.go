package bus_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bushttp"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/nodeapi"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// networkOf returns the configuration of the network parts of a node, which the node has registered.
func networkOf(t *testing.T, s *harness.Server, node string) *rest.Config {
	t.Helper()
	as := harness.Typed(t, s.Service("system:node:"+node))
	created, err := as.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	token, err := as.CoreV1().ServiceAccounts(nodeapi.NetworkAccountNamespace).CreateToken(t.Context(), nodeapi.NetworkAccount, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: node, UID: created.UID}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s.WithToken(token.Status.Token)
}

// TestNetworkAccount: the network parts of a node hear Services, EndpointSlices and Nodes, and nothing else; a node
// gets no token for another; and the token ends with the Node.
func TestNetworkAccount(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	config := networkOf(t, s, "n1")
	conn := s.Bus.ConnectAs(client.BusConfig(config, bus.Config{Name: t.Name()}))
	harness.Eventually(t, "the roles are known", func() bool { return !harness.Denied(t, conn, "gb.watch.core.services.>") })
	for _, at := range []string{"gb.watch.core.nodes.>", "gb.watch.discovery~2ek8s~2eio.endpointslices.>"} {
		if harness.Denied(t, conn, at) {
			t.Errorf("it may not subscribe to %s", at)
		}
	}
	for _, at := range []string{"gb.watch.core.pods.>", "gb.watch.core.secrets.>", "gb.watch.core.pods.s.n1.>", "gb.watch.>", "gb.node.n1.>"} {
		if !harness.Denied(t, conn, at) {
			t.Errorf("it may subscribe to %s", at)
		}
	}
	other := harness.Typed(t, s.Service("system:node:n2"))
	_, err := other.CoreV1().ServiceAccounts("kube-system").CreateToken(t.Context(), nodeapi.NetworkAccount, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: "n1"}},
	}, metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("another node's token: got %v", err)
	}
	if err := harness.Typed(t, s.Admin()).CoreV1().Nodes().Delete(t.Context(), "n1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the token has ended with the Node", func() bool {
		_, err := harness.Typed(t, config).CoreV1().Services("").List(t.Context(), metav1.ListOptions{})
		return apierrors.IsUnauthorized(err)
	})
}

// TestTunnel: the network parts of a node are given a connection to the HTTPS port over the bus, on which a pod is
// whoever its own credential says. Others are refused.
func TestTunnel(t *testing.T) {
	t.Parallel()
	s := harness.StartWithTokens(t)
	config := networkOf(t, s, "n1")
	conn := s.Bus.ConnectAs(client.BusConfig(config, bus.Config{Name: t.Name()}))
	transport, err := bushttp.New(t.Context(), bushttp.Config{Conn: conn})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.Close)
	open := func(token string, header http.Header) *http.Response {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api"+nodeapi.TunnelPath, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header = header.Clone()
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = response.Body.Close() })
		return response
	}
	upgrade := http.Header{"Connection": {"Upgrade"}, "Upgrade": {nodeapi.DialProtocol}}
	var tunnel bushttp.Conn
	harness.Eventually(t, "the tunnel opens", func() bool {
		response := open(config.BearerToken, upgrade)
		var ok bool
		tunnel, ok = response.Body.(bushttp.Conn)
		return ok && response.StatusCode == http.StatusSwitchingProtocols
	})
	secure := tls.Client(tunnel, &tls.Config{ServerName: "kubernetes.default.svc", RootCAs: authorities(t, s.Admin())})
	for path, want := range map[string]string{"/version": `"gitVersion"`, "/api/v1/secrets": "secrets is forbidden: User \\\"system:anonymous\\\""} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://kubernetes.default.svc"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := request.Write(secure); err != nil {
			t.Fatalf("asking for %s: %v", path, err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(secure), request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%s through the tunnel: %s, %v", path, body, err)
		}
	}
	if err := secure.Close(); err != nil {
		t.Error(err)
	}
	if response := open(config.BearerToken, http.Header{}); response.StatusCode != http.StatusBadRequest {
		t.Errorf("without an upgrade: %s", response.Status)
	}
	if response := open(harness.PoorToken, upgrade); response.StatusCode != http.StatusForbidden {
		t.Errorf("another user: %s", response.Status)
	}
}

// authorities returns those that sign the server's certificate.
func authorities(t *testing.T, config *rest.Config) *x509.CertPool {
	t.Helper()
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return tlsConfig.RootCAs
}
