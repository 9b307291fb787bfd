package client_test

import (
	"encoding/pem"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
)

// TestReadPause checks that calls by HTTPS share one connection, send the credential, and are answered after a pause
// once one follows the other.
func TestReadPause(t *testing.T) {
	t.Parallel()
	const pause, calls = 50 * time.Millisecond, 5
	var connections atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header["Authorization"]; len(got) != 1 || got[0] != "Bearer t" {
			t.Errorf("the Authorization headers are %q", got)
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	server.EnableHTTP2 = true
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.StartTLS()
	defer server.Close()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	config := &rest.Config{Host: server.URL, BearerToken: "t", TLSClientConfig: rest.TLSClientConfig{CAData: authority}}
	api, end, err := client.Connect(t.Context(), config, scheme.New(), client.Route{ReadPause: pause}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	pods, deployments := client.Of[*corev1.Pod](api), client.Of[*appsv1.Deployment](api)
	call := func() {
		for range calls {
			if _, err := pods.Get(t.Context(), "default", "none", metav1.GetOptions{}); err == nil {
				t.Error("a pod was found")
			}
			if _, err := deployments.Get(t.Context(), "default", "none", metav1.GetOptions{}); err == nil {
				t.Error("a Deployment was found")
			}
		}
	}
	call()
	<-time.After(time.Second) // A new connection is read without pauses.
	began := time.Now()
	call()
	if took := time.Since(began); took < (2*calls-1)*pause {
		t.Errorf("%d calls in a row took only %v", 2*calls, took)
	}
	if got := connections.Load(); got != 1 {
		t.Errorf("the calls opened %d connections", got)
	}
}

// TestNoReadPause checks that a configuration which says itself how to connect is not changed.
func TestNoReadPause(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]*rest.Config{
		"transport": {Host: "https://127.0.0.1:6443", Transport: http.DefaultTransport},
		"dial":      {Host: "https://127.0.0.1:6443", Dial: (&net.Dialer{}).DialContext},
		"program":   {Host: "https://127.0.0.1:6443", ExecProvider: &api.ExecConfig{}},
		"provider":  {Host: "https://127.0.0.1:6443", AuthProvider: &api.AuthProviderConfig{}},
		"no TLS":    {Host: "http://127.0.0.1:6443"},
		"no scheme": {Host: "127.0.0.1:6443", TLSClientConfig: rest.TLSClientConfig{Insecure: true}},
	} {
		got, end, err := client.WithTransport(t.Context(), config, client.Route{ReadPause: time.Second}, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		end()
		if got != config {
			t.Errorf("%s: the configuration was changed", name)
		}
	}
}
