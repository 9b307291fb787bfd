package runtime_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

// testSessions runs a command at the URL that the runtime returns, and checks what it refuses.
func testSessions(t *testing.T, b *bench) {
	pod := b.pod(t, nil)
	sandbox := b.sandbox(t, pod)
	id := b.start(t, sandbox, b.shell(t, "main", "sleep 1000"), pod)
	outputs := runtime.Streams{Stdout: true, Stderr: true}
	location, err := b.client.Exec(t.Context(), id, []string{"sh", "-c", "echo out; echo err >&2; exit 3"}, outputs)
	if err != nil {
		t.Fatal(err)
	}
	onLoopback(t, location)
	executor, err := remotecommand.NewSPDYExecutor(&rest.Config{}, http.MethodPost, location)
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	err = executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &stdout, Stderr: &stderr})
	if err == nil || !strings.Contains(err.Error(), "exit code 3") || stdout.String() != "out\n" || stderr.String() != "err\n" {
		t.Errorf("the command wrote %q and %q, and ended with %v", stdout.String(), stderr.String(), err)
	}
	if location, err = b.client.Attach(t.Context(), id, outputs); err != nil {
		t.Fatal(err)
	}
	onLoopback(t, location)
	if location, err = b.client.PortForward(t.Context(), sandbox, nil); err != nil {
		t.Fatal(err)
	}
	onLoopback(t, location)
	if _, err := b.client.Exec(t.Context(), id, []string{"true"}, runtime.Streams{}); err == nil || !strings.Contains(err.Error(), "must be set") {
		t.Errorf("a command without streams: %v", err)
	}
	if err := b.client.StopContainer(t.Context(), id, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := b.client.Exec(t.Context(), id, []string{"true"}, outputs); err == nil {
		t.Error("a command in a container that has ended")
	}
	if _, err := b.client.Attach(t.Context(), id, outputs); err == nil && !b.real {
		t.Error("attaching to a container that has ended")
	}
	if _, err := b.client.PortForward(t.Context(), "none", nil); err == nil {
		t.Error("forwarding ports of a sandbox that does not exist")
	}
}

func onLoopback(t *testing.T, location *url.URL) {
	t.Helper()
	if ip := net.ParseIP(location.Hostname()); location.Scheme != "http" || !ip.IsLoopback() {
		t.Errorf("the session is at %s", location)
	}
}

// TestSessionErrors checks that the errors of preparing say what was tried, have the runtime's status,
// and are counted under the kubelet's names.
func TestSessionErrors(t *testing.T) {
	b, calls := simulate(t, t.TempDir())
	registry := prometheus.NewRegistry()
	b.client.Measure(registry)
	all := runtime.Streams{Stdout: true}
	for _, call := range []struct {
		name, words string
		call        func(context.Context) (*url.URL, error)
	}{
		{"Exec", "preparing a command in the container 0123456789abc", func(ctx context.Context) (*url.URL, error) {
			return b.client.Exec(ctx, "0123456789abcdef", []string{"true"}, all)
		}},
		{"Attach", "preparing to attach to the container 0123456789abc", func(ctx context.Context) (*url.URL, error) {
			return b.client.Attach(ctx, "0123456789abcdef", all)
		}},
		{"PortForward", "preparing to forward ports of the sandbox 0123456789abc", func(ctx context.Context) (*url.URL, error) {
			return b.client.PortForward(ctx, "0123456789abcdef", []int32{80})
		}},
	} {
		_, err := call.call(t.Context())
		if !errors.Is(err, runtime.ErrNotFound) || !strings.HasPrefix(err.Error(), call.words) {
			t.Errorf("%s of what does not exist: %v", call.name, err)
		}
		calls.fail(call.name, status.Error(codes.ResourceExhausted, "too many"))
		if _, err := call.call(t.Context()); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("%s beyond the bound: %v", call.name, err)
		}
	}
	recorder := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	for _, operation := range []string{"exec", "attach", "port_forward"} {
		if line := `kubelet_runtime_operations_total{operation_type="` + operation + `"} 2`; !strings.Contains(recorder.Body.String(), line) {
			t.Errorf("%s is not in %s", line, recorder.Body)
		}
	}
}
