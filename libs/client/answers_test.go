package client_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/client"
)

func TestAnswers(t *testing.T) {
	code, path := http.StatusOK, ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path = r.URL.Path
		if code == 0 {
			<-r.Context().Done()
			return
		}
		http.Error(w, "[+]ping ok\n[-]etcd failed", code)
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL + "/below"}
	if err := client.Answers(t.Context(), config); err != nil || path != "/below/readyz" {
		t.Errorf("got %v, asked at %s", err, path)
	}
	code = http.StatusInternalServerError
	if err := client.Answers(t.Context(), config); err == nil || !strings.Contains(err.Error(), "is not ready: 500 Internal Server Error: [+]ping ok [-]etcd failed") {
		t.Errorf("not ready: %v", err)
	}
	code = 0
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan error, 1)
	go func() { asked <- client.Answers(ctx, config) }()
	cancel()
	if err := <-asked; err == nil || !strings.Contains(err.Error(), "does not answer in time") {
		t.Errorf("silent: %v", err)
	}
	if err := client.Answers(t.Context(), &rest.Config{Host: "http://127.0.0.1:1"}); err == nil || !strings.Contains(err.Error(), "the API at 127.0.0.1:1 does not answer") {
		t.Errorf("nobody: %v", err)
	}
}
