package client_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/trace"
)

// TestCallsCarryTheirTrace checks that exactly the calls that belong to a trace carry its header.
func TestCallsCarryTheirTrace(t *testing.T) {
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Values(trace.Header)
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	api, err := client.New(&rest.Config{Host: server.URL}, scheme.New())
	if err != nil {
		t.Fatal(err)
	}
	for _, header := range []string{"", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"} {
		ctx := t.Context()
		if header != "" {
			ctx = trace.WithHeader(ctx, header)
		}
		if _, err := client.Of[*corev1.Pod](api).Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n"}}, metav1.CreateOptions{}); err == nil {
			t.Fatal("no error without a valid response")
		}
		if (header == "") != (len(got) == 0) || len(got) > 0 && got[0] != header {
			t.Errorf("the header is %q, want %q", got, header)
		}
	}
}
