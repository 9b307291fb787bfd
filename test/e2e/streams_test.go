package e2e_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/garboard/garboard/test/e2e/plane"
)

// TestStreams runs the story of connections on the simulated runtime.
func TestStreams(t *testing.T) {
	p := plane.Start(t, plane.Binary(t), "--runtime", "simulated", "--nodes", "2")
	streams(t, p, "simulated pod web: nothing runs")
	expectFailure(t, p, `pods "none" not found`, "attach", "none")
}

// overSPDY and overWebSockets are the two ways in which kubectl connects.
var (
	overSPDY       = []string{"KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false", "KUBECTL_PORT_FORWARD_WEBSOCKETS=false"}
	overWebSockets = []string{"KUBECTL_REMOTE_COMMAND_WEBSOCKETS=true", "KUBECTL_PORT_FORWARD_WEBSOCKETS=true"}
)

// streams connects to what runs in pods in all ways that kubectl has. page is what a web server in the pod
// web says.
func streams(t *testing.T, p *plane.Plane, page string) {
	expect(t, p, `apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: server, image: "nginx:1.14.2", ports: [{containerPort: 80}]}]
---
apiVersion: v1
kind: Pod
metadata: {name: shell}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: "busybox:1.36", command: [sleep, "3600"]}
  - {name: other, image: "busybox:1.36", command: [sleep, "3600"], env: [{name: WHO, value: other}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{name: http, port: 8000, targetPort: 80}]}
`, `service/web created`, "create", "-f", "-")
	p.Must(t, "", "wait", "--for=condition=Ready", "pod/web", "pod/shell", "--timeout=150s")
	for name, env := range map[string][]string{"SPDY": overSPDY, "WebSockets": overWebSockets} {
		t.Run(name, func(t *testing.T) {
			commands(t, p, env)
			forwards(t, p, env, page)
		})
	}
	t.Run("proxies", func(t *testing.T) { proxies(t, p, page) })
	t.Run("rights", func(t *testing.T) { mayConnect(t, p) })
	p.Must(t, "", "delete", "pod/web", "pod/shell", "service/web")
}

// commands runs commands in containers.
func commands(t *testing.T, p *plane.Plane, env []string) {
	for _, c := range []struct {
		args, stdin string
		out, err    string // patterns
		code        int
	}{
		{args: "exec shell -- echo hello world", out: `^hello world\n$`, err: `Defaulted container "main" out of: main, other`},
		{args: "exec shell -c other -- env", out: `(?m)^WHO=other$`},
		{args: "exec -i shell -c main -- cat", stdin: "all\nof it", out: `^all\nof it$`},
		{args: "exec shell -c main -- false", err: `command terminated with exit code 1\n`, code: 1},
		{args: "exec shell -c main -- sh -c", out: "", err: ".", code: -1},
		{args: "exec shell -c main -- nothing", err: `executable file not found in \$PATH`, code: 1},
		{args: "exec shell -c none -- true", err: `container (not found|none is not valid for pod shell|none not found)`, code: 1},
		{args: "exec none -- true", err: `pods "none" not found`, code: 1},
		{args: "exec shell -c main -- true"},
	} {
		stdin, args := c.stdin, strings.Fields(c.args)
		if strings.HasSuffix(c.args, "sh -c") {
			args, c.code = append(args, "exit 7"), 7
			c.err = `command terminated with exit code 7\n`
		}
		res := kubectl(t, p, env, stdin, args...)
		if res.Code != c.code || !regexp.MustCompile(c.out).MatchString(res.Stdout) || !regexp.MustCompile(c.err).MatchString(res.Stderr) {
			t.Errorf("kubectl %s: exit code %d\n%s%s-- want %d\n%s\n%s", c.args, res.Code, res.Stdout, res.Stderr, c.code, c.out, c.err)
		}
	}
	// More than any window.
	much := strings.Repeat("0123456789abcde\n", 1<<18)
	if res := kubectl(t, p, env, much, "exec", "-i", "shell", "-c", "main", "--", "cat"); res.Code != 0 || res.Stdout != much {
		t.Errorf("4 MiB through cat: exit code %d, %d bytes of %d: %s", res.Code, len(res.Stdout), len(much), res.Stderr)
	}
}

// kubectl runs kubectl with further variables.
func kubectl(t *testing.T, p *plane.Plane, env []string, stdin string, args ...string) plane.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), plane.Patience)
	defer cancel()
	var out, fault strings.Builder
	cmd := p.Command(ctx, args...)
	cmd.Env = append(cmd.Env, env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &fault
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
	}
	return plane.Result{Stdout: out.String(), Stderr: fault.String(), Code: cmd.ProcessState.ExitCode()}
}

// forwards reaches the web server by forwarded ports.
func forwards(t *testing.T, p *plane.Plane, env []string, page string) {
	for _, to := range [][]string{{"pod/web", ":80"}, {"service/web", ":8000"}} {
		ctx, cancel := context.WithTimeout(t.Context(), plane.Patience)
		cmd := p.Command(ctx, append([]string{"port-forward", "--address=127.0.0.1"}, to...)...)
		cmd.Env = append(cmd.Env, env...)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		found := regexp.MustCompile(`^Forwarding from (127\.0\.0\.1:\d+) -> 80\n$`).FindStringSubmatch(line)
		if found == nil {
			t.Errorf("port-forward %v printed %q, %v", to, line, err)
		}
		for range 2 {
			if found == nil {
				break
			}
			if got, err := fetch(ctx, "http://"+found[1]+"/"); err != nil || !strings.Contains(got, page) {
				t.Errorf("port-forward %v: got %q, %v", to, got, err)
			}
		}
		cancel()
		_ = cmd.Wait() // It was killed.
	}
}

func fetch(ctx context.Context, url string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(res.Body)
	return string(body), errors.Join(err, res.Body.Close())
}

// proxies reaches the web server and the agent of a node through the apiserver.
func proxies(t *testing.T, p *plane.Plane, page string) {
	node := strings.TrimSpace(p.Must(t, "", "get", "pod", "web", "-o", "jsonpath={.spec.nodeName}"))
	quoted := regexp.QuoteMeta(page)
	expect(t, p, "", quoted, "get", "--raw", "/api/v1/namespaces/default/pods/web/proxy/")
	expect(t, p, "", quoted, "get", "--raw", "/api/v1/namespaces/default/pods/http:web:80/proxy/")
	plane.Eventually(t, "an endpoint of the service", func(context.Context) error {
		res := p.Kubectl(t, "", "get", "--raw", "/api/v1/namespaces/default/services/web:http/proxy/")
		if res.Code != 0 || !strings.Contains(res.Stdout, page) {
			return fmt.Errorf("exit code %d\n%s%s", res.Code, res.Stdout, res.Stderr)
		}
		return nil
	})
	expect(t, p, "", `^ok$`, "get", "--raw", "/api/v1/nodes/"+node+"/proxy/healthz")
	expectFailure(t, p, `nodes "none" not found`, "get", "--raw", "/api/v1/nodes/none/proxy/healthz")
	kubelet(t, p, "/api/v1/nodes/"+node+"/proxy")
}

// kubelet asks the agent of a node that runs the pod web, at a path of the apiserver, for what the node is and
// uses.
func kubelet(t *testing.T, p *plane.Plane, agent string) {
	for path, want := range map[string]string{
		"/stats/summary": `(?s)"nodeName": .*"workingSetBytes": .*"name": "web"`,
		"/stats/summary?only_cpu_and_memory=true": `(?s)"usageCoreNanoSeconds": .*"name": "server"`,
		"/metrics/resource":                       `(?s)container_cpu_usage_seconds_total\{container="server",namespace="default",pod="web"\}.*\nresource_scrape_error 0\n`,
		"/metrics/cadvisor":                       `(?s)container_memory_working_set_bytes\{container="server",.*\nmachine_cpu_cores\{`,
		"/metrics":                                `\nkubelet_running_pods(\{[^}]*\})? [1-9]`,
		"/metrics/probes":                         `process_start_time_seconds`,
		"/pods":                                   `(?s)"kind": "PodList".*"name": "web"`,
		"/runningpods/":                           `(?s)"kind": "PodList".*"name": "web"`,
		"/configz":                                `(?s)"kubeletconfig": \{.*"maxPods": 110`,
		"/healthz/syncloop":                       `^ok$`,
	} {
		plane.Eventually(t, path, func(context.Context) error {
			res := p.Kubectl(t, "", "get", "--raw", agent+path)
			if res.Code != 0 || !regexp.MustCompile(want).MatchString(res.Stdout) {
				return fmt.Errorf("exit code %d\n%s%s-- want %s", res.Code, res.Stdout, res.Stderr, want)
			}
			return nil
		})
	}
}

// mayConnect checks that a user who may only read pods can connect to nothing.
func mayConnect(t *testing.T, p *plane.Plane) {
	p.Must(t, "", "create", "rolebinding", "reader", "--clusterrole=view", "--user=ann")
	for _, args := range [][]string{{"exec", "shell", "--", "true"}, {"attach", "shell"}, {"port-forward", "pod/web", ":80"}} {
		expectFailure(t, p, `Forbidden|forbidden`, append([]string{"--as=ann"}, args...)...)
	}
	p.Must(t, "", "delete", "rolebinding", "reader")
}
