package simulated

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestDial: pods answer over HTTP, gRPC and TCP while one of their containers runs.
func TestDial(t *testing.T) {
	r := create(t, config(t.TempDir()))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	sandbox, _ := start(t, r, pod("fine", nil))
	_, _ = start(t, r, pod("broken", map[string]string{AnnotationPrefix + keyHTTPStatus: "503"}))

	client := &http.Client{Transport: &http.Transport{DialContext: r.Dial, DisableKeepAlives: true}}
	get := func(url string) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(body)
	}
	if code, body := get("http://10.9.0.2:8080/x"); code != http.StatusOK || body != "simulated pod pod-fine: nothing runs\n" {
		t.Errorf("the pod answered %d %q", code, body)
	}
	if code, _ := get("http://10.9.0.3/"); code != http.StatusServiceUnavailable {
		t.Errorf("the broken pod answered %d", code)
	}
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	if code, _ := get(other.URL); code != http.StatusNotFound {
		t.Errorf("a server outside the range answered %d", code)
	}

	conn, err := grpc.NewClient("passthrough:///10.9.0.2:9000", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return r.Dial(ctx, "tcp", address) }))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil || answer.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("over gRPC the pod is %v, %v", answer, err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}

	open, err := r.Dial(t.Context(), "tcp", "10.9.0.2:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := open.Close(); err != nil {
		t.Error(err)
	}
	if _, err := r.Dial(t.Context(), "tcp", "10.9.0.6:1"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("an unused address: %v", err)
	}
	if _, err := r.StopPodSandbox(t.Context(), &cri.StopPodSandboxRequest{PodSandboxId: sandbox}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Dial(t.Context(), "tcp", "10.9.0.2:1"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a stopped pod: %v", err)
	}
	_, err = r.RunPodSandbox(t.Context(), &cri.RunPodSandboxRequest{Config: pod("odd", map[string]string{AnnotationPrefix + keyHTTPStatus: "ok"})})
	if err == nil || !strings.Contains(err.Error(), `http-status is "ok", not a number`) {
		t.Errorf("a status that is not a number: %v", err)
	}
}
