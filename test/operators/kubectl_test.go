//go:build operators

package operators

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/garboard/garboard/test/e2e/plane"
)

const talkers = `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {terminationGracePeriodSeconds: 1, containers: [{name: server, image: "nginx:1.14.2", ports: [{containerPort: 80}]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: shell}
spec: {terminationGracePeriodSeconds: 1, containers: [{name: main, image: "busybox:1.36", command: [sleep, "3600"]}]}
`

// TestOldKubectl runs kubectl 1.28, unmodified, which speaks only SPDY.
func TestOldKubectl(t *testing.T) {
	program := build(t, "kubectl", "k8s.io/kubernetes", "k8s.io/kubernetes/cmd/kubectl")
	c := start(t)
	t.Setenv("KUBECTL", program.path)
	c.Must(t, talkers, "create", "-f", "-")
	c.Must(t, "", "wait", "--for=condition=Ready", "pod/web", "pod/shell", "--timeout=2m")
	const much = 4 << 20
	for _, want := range []struct {
		args, stdin, out, err string
		code                  int
	}{
		{args: "exec shell -- echo hello", out: "hello\n"},
		{args: "exec -i shell -- cat", stdin: strings.Repeat("x", much), out: strings.Repeat("x", much)},
		{args: "exec shell -- false", err: "command terminated with exit code 1", code: 1},
		{args: "exec shell -- nothing", err: "executable file not found in $PATH", code: 1},
		{args: "exec none -- true", err: `pods "none" not found`, code: 1},
		{args: "attach none", err: `pods "none" not found`, code: 1},
		{args: "get pod shell -o name", out: "pod/shell\n"},
		{args: "get --raw /api/v1/namespaces/default/pods/web/proxy/", out: "simulated pod web: nothing runs\n"},
	} {
		res := c.Kubectl(t, want.stdin, strings.Fields(want.args)...)
		if res.Code != want.code || !strings.Contains(res.Stderr, want.err) || want.code == 0 && res.Stdout != want.out {
			t.Errorf("kubectl %s: exit code %d, %d bytes, %.2000s", want.args, res.Code, len(res.Stdout), res.Stderr)
		}
	}
	if res := c.Kubectl(t, "", "logs", "web"); res.Code != 0 {
		t.Errorf("logs: %s", res.Stderr)
	}
	ctx, cancel := context.WithTimeout(t.Context(), plane.Patience)
	defer cancel()
	forward := c.Command(ctx, "port-forward", "--address=127.0.0.1", "pod/web", ":80")
	out, err := forward.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := forward.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	var port int
	if _, scanned := fmt.Sscanf(line, "Forwarding from 127.0.0.1:%d -> 80", &port); err != nil || scanned != nil {
		t.Fatalf("port-forward printed %q, %v", line, err)
	}
	for range 3 {
		if got, err := page(ctx, port); err != nil || got != "simulated pod web: nothing runs\n" {
			t.Errorf("through a forwarded port: %q, %v", got, err)
		}
	}
	cancel()
	_ = forward.Wait() // It was killed.
}

// page returns what a web server at a port of this machine says.
func page(ctx context.Context, port int) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/", port), nil)
	if err != nil {
		return "", err
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}
