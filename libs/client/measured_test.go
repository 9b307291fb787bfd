package client_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
)

// TestMeasured checks that requests are counted by response, including those without one, and that
// credentials are still sent.
func TestMeasured(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer t" {
			t.Errorf("the Authorization header is %q", r.Header.Get("Authorization"))
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	registry := prometheus.NewRegistry()
	plain := &rest.Config{Host: server.URL, BearerToken: "t"}
	api, err := client.New(client.Measured(plain, registry), scheme.New())
	if err != nil {
		t.Fatal(err)
	}
	if plain.WrapTransport != nil {
		t.Error("the caller's configuration was changed")
	}
	pods := client.Of[*corev1.Pod](api)
	for range 2 {
		if _, err := pods.Get(t.Context(), "default", "none", metav1.GetOptions{}); err == nil {
			t.Error("a pod was found")
		}
	}
	server.Close()
	if err := pods.Delete(t.Context(), "default", "none", metav1.DeleteOptions{}); err == nil {
		t.Error("the deletion succeeded without a response")
	}
	host := strings.TrimPrefix(server.URL, "http://")
	recorder := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/", nil))
	for _, want := range []string{
		`rest_client_requests_total{code="404",host="` + host + `",method="GET"} 2`,
		`rest_client_requests_total{code="<error>",host="` + host + `",method="DELETE"} 1`,
		`rest_client_request_duration_seconds_count{host="` + host + `",verb="GET"} 2`,
		`rest_client_request_duration_seconds_count{host="` + host + `",verb="DELETE"} 1`,
	} {
		if !strings.Contains(recorder.Body.String(), want+"\n") {
			t.Errorf("%s is missing in\n%s", want, recorder.Body.String())
		}
	}
}
