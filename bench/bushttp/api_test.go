package bushttp

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/bench/measure"
	"github.com/garboard/garboard/bench/plane"
	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bushttp"
)

// reader is the ServiceAccount that calls the API.
const reader = "reader"

// BenchmarkAPI reads a ConfigMap of 1 KB or 900 KB from an apiserver: over HTTP/2 with TLS (impl=https), and over the
// bus. cpu-us/op is the time of the apiserver and of this process, in which are the caller and NATS.
func BenchmarkAPI(b *testing.B) {
	b.Chdir("../..") // The plane is built from the repository's root.
	p, err := plane.New(b.Context(), "", b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(p.Close)
	server, err := p.Server(b.Context(), "apiserver")
	if err != nil {
		b.Fatal(err)
	}
	config, err := server.Restart(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(server.Stop)
	token, err := prepare(b.Context(), config)
	if err != nil {
		b.Fatal(err)
	}
	clients := map[string]*http.Client{"https": overAPI(b, config), "bus": overBus(b, p.NATS())}
	for _, c := range []struct {
		name    string
		size    int
		callers int
	}{{"small", small, 1}, {"small", small, 16}, {"large", large, 4}} {
		for _, impl := range []string{"https", "bus"} {
			b.Run(fmt.Sprintf("answer=%dKB/callers=%d/impl=%s", c.size>>10, c.callers, impl), func(b *testing.B) {
				one := func() error { return read(b.Context(), clients[impl], config.Host, token, c.name, c.size) }
				measured(b, one, c.callers, func() int64 {
					used, err := measure.Process{PID: server.Processes()[0].PID}.CPU()
					if err != nil {
						b.Fatal(err)
					}
					return cpu(b) + used.Microseconds()
				})
			})
		}
	}
}

// prepare creates the ConfigMaps and the account that reads them, and returns its token.
func prepare(ctx context.Context, config *rest.Config) (string, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	for name, size := range map[string]int{"small": small, "large": large} {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"text": strings.Repeat("a", size)}}
		if _, err := client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(ctx, m, metav1.CreateOptions{}); err != nil {
			return "", err
		}
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: reader}}
	if _, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Create(ctx, account, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: reader}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: reader}},
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	lasts := int64(time.Hour / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &lasts}}
	made, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).CreateToken(ctx, reader, request, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return made.Status.Token, nil
}

// overAPI returns a client without credentials that trusts the apiserver.
func overAPI(b *testing.B, config *rest.Config) *http.Client {
	b.Helper()
	client, err := rest.HTTPClientFor(rest.AnonymousClientConfig(config))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(client.CloseIdleConnections)
	return client
}

func overBus(b *testing.B, config bus.Config) *http.Client {
	b.Helper()
	conn, err := bus.Connect(b.Context(), config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(conn.Close)
	transport, err := bushttp.New(b.Context(), bushttp.Config{Conn: conn})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(transport.Close)
	return &http.Client{Transport: transport}
}

// read reads a ConfigMap of at least a size.
func read(ctx context.Context, client *http.Client, host, token, name string, size int) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, host+"/api/v1/namespaces/default/configmaps/"+name, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Accept-Encoding", "identity")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	n, err := io.Copy(io.Discard, response.Body)
	if err == nil && (response.StatusCode != http.StatusOK || n < int64(size)) {
		err = fmt.Errorf("got %s and %d bytes", response.Status, n)
	}
	return firstOf(err, response.Body.Close())
}
