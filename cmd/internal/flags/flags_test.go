package flags

import (
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// TestMetricsOfAService checks that a service exposes its build info, its calls to the apiserver,
// and the expiry of its certificates.
func TestMetricsOfAService(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: server.URL, CertificateAuthorityData: authority}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c"}
	config.CurrentContext = "x"
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	natsCA := filepath.Join(t.TempDir(), "nats-ca.crt")
	if err := os.WriteFile(natsCA, authority, 0o600); err != nil {
		t.Fatal(err)
	}
	s := NewService("sheep", "v1.2.3")
	set := pflag.NewFlagSet("sheep", pflag.ContinueOnError)
	s.Bus(set)
	s.API(set, "", "")
	if err := set.Parse([]string{"--kubeconfig", kubeconfig, "--nats-ca-file", natsCA}); err != nil {
		t.Fatal(err)
	}
	api, err := s.APIConfig(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	caller, err := rest.HTTPClientFor(api)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := caller.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	recorder := httptest.NewRecorder()
	promhttp.HandlerFor(s.Metrics(), promhttp.HandlerOpts{}).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{
		`version="v1.2.3"} 1`, `rest_client_requests_total{code="404",`, "process_start_time_seconds ", "go_goroutines ",
		`garboard_certificate_expiration_timestamp_seconds{file="` + kubeconfig + `"} `,
		`garboard_certificate_expiration_timestamp_seconds{file="` + natsCA + `"} `,
	} {
		if !strings.Contains(recorder.Body.String(), want) {
			t.Errorf("%s is missing in\n%s", want, recorder.Body.String())
		}
	}
}
