//go:build compose

package compose_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/test/compose/project"
	"github.com/garboard/garboard/test/containers/harness"
	"github.com/garboard/garboard/test/e2e/plane"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Bounds of waiting for containers, generous for a loaded machine.
const (
	upTimeout   = 15 * time.Minute
	downTimeout = 5 * time.Minute
)

// root is the root of the sources.
const root = "../.."

// deployed is a plane in containers.
type deployed struct {
	*plane.Plane
	project *project.Project
	// port is that of the gateway.
	port string
	// mounted has the volumes that any of its containers ever had.
	mounted map[string]bool
	// cause is why the test ended early; empty if it did not.
	cause string
}

// deploy brings the plane up under a unique name, and takes it down when the test ends.
func deploy(t *testing.T, settings map[string]string) *deployed {
	t.Helper()
	require(t)
	source, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{
		"GARBOARD_PORT": freePort(t), "PROMETHEUS_PORT": freePort(t), "GARBOARD_MTU": "1400",
	}
	maps.Copy(all, settings)
	p, err := project.New(project.Config{Name: fmt.Sprintf("gbtest%d", os.Getpid()), Source: source, Settings: all, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	gateway, err := p.Gateway(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all["GARBOARD_REGISTRY_MIRROR"] = "http://" + harness.ServeImages(t, gateway+":0")
	d := &deployed{project: p, port: all["GARBOARD_PORT"], mounted: map[string]bool{}}
	t.Cleanup(func() { d.end(t) })
	began := time.Now()
	d.within(t, upTimeout, "bringing the plane up", func(ctx context.Context) error { return p.Up(ctx) })
	t.Logf("the plane was up after %v", time.Since(began).Round(time.Second))
	kubeconfig, err := p.Kubeconfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(path, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	d.Plane = plane.At(plane.Binary(t), dir, path)
	return d
}

// within calls a function that must return in time, and fails the test if it does not succeed.
func (d *deployed) within(t *testing.T, limit time.Duration, what string, do func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := do(ctx); err != nil {
		d.cause = fmt.Sprintf("%s: %v", what, err)
		t.Fatal(d.cause)
	}
}

// end takes the plane down. Nothing of it may be left, including anonymous volumes.
func (d *deployed) end(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), downTimeout)
	defer cancel()
	if t.Failed() {
		logs, err := d.project.Logs(ctx, 60)
		t.Logf("the logs of the containers (%v):\n%s", err, logs)
	}
	d.note(ctx, t)
	if err := d.project.Down(ctx); err != nil {
		t.Errorf("taking the plane down: %v", err)
	}
	// The logs are long, and the end of the output is read first.
	if d.cause != "" {
		defer func() { t.Log("the first failure: " + d.cause) }()
	}
	left, err := d.project.Leftovers(ctx)
	if err != nil || len(left) > 0 {
		t.Errorf("leftovers: %v, %v", left, err)
	}
	volumes, err := d.project.Volumes(ctx)
	if err != nil {
		t.Errorf("listing volumes: %v", err)
	}
	if len(d.mounted) == 0 {
		t.Error("no container had a volume")
	}
	for _, name := range volumes {
		if d.mounted[name] {
			t.Errorf("the volume %s still exists", name)
		}
	}
}

// note remembers the volumes of the containers, before some of these are removed.
func (d *deployed) note(ctx context.Context, t *testing.T) {
	t.Helper()
	names, err := d.project.Mounted(ctx)
	if err != nil {
		t.Errorf("listing the mounts of the containers: %v", err)
	}
	for _, name := range names {
		d.mounted[name] = true
	}
}

// scale scales services and waits until they are healthy.
func (d *deployed) scale(t *testing.T, counts map[string]int) {
	t.Helper()
	d.note(t.Context(), t)
	began := time.Now()
	d.within(t, upTimeout, fmt.Sprintf("scaling %v", counts), func(ctx context.Context) error { return d.project.Scale(ctx, counts) })
	for service, count := range counts {
		found, err := d.project.Containers(t.Context(), service)
		if err != nil || len(found) != count {
			t.Fatalf("%s has the containers %v, want %d: %v", service, found, count, err)
		}
		for _, one := range found {
			if one.State != "running" || one.Health != "healthy" {
				t.Errorf("%s is %s and %s, want running and healthy", one.Name, one.State, one.Health)
			}
		}
	}
	t.Logf("scaled %v in %v", counts, time.Since(began).Round(time.Second))
}

// nodesReady waits until the given number of nodes is ready.
func (d *deployed) nodesReady(t *testing.T, count int) {
	t.Helper()
	plane.Eventually(t, fmt.Sprintf("%d nodes to be ready", count), func(context.Context) error {
		res := d.Kubectl(t, "", "get", "nodes", "--no-headers")
		ready := 0
		for line := range strings.Lines(res.Stdout) {
			if fields := strings.Fields(line); len(fields) > 1 && fields[1] == "Ready" {
				ready++
			}
		}
		if ready != count {
			return fmt.Errorf("%d are ready:\n%s%s", ready, res.Stdout, res.Stderr)
		}
		return nil
	})
}

// pods returns the nodes of the running pods with a label, by pod name.
func (d *deployed) pods(t *testing.T, label string, count int) map[string]string {
	t.Helper()
	var found map[string]string
	plane.Eventually(t, fmt.Sprintf("%d pods to run", count), func(context.Context) error {
		res := d.Kubectl(t, "", "get", "pods", "-l", label, "--field-selector", "status.phase=Running", "--no-headers", "-o", "wide")
		found = map[string]string{}
		for line := range strings.Lines(res.Stdout) {
			if fields := strings.Fields(line); len(fields) > 6 && fields[1] == "1/1" && fields[2] == "Running" {
				found[fields[0]] = fields[6]
			}
		}
		if len(found) != count {
			return fmt.Errorf("these run: %v\n%s%s", found, res.Stderr, d.Kubectl(t, "", "describe", "pods", "-l", label).Stdout)
		}
		return nil
	})
	return found
}

// answers requests the pod's page from the container that is its node, since its address is
// reachable only there.
func (d *deployed) answers(t *testing.T, pod, node string) {
	t.Helper()
	number, err := strconv.Atoi(node[strings.LastIndexByte(node, '-')+1:])
	if err != nil {
		t.Fatalf("the node %q is not named after a container", node)
	}
	address := strings.TrimSpace(d.Must(t, "", "get", "pod", pod, "-o", "jsonpath={.status.podIP}"))
	const script = `exec 3<>"/dev/tcp/$0/80"; printf 'GET / HTTP/1.0\r\n\r\n' >&3; cat <&3`
	plane.Eventually(t, "the pod "+pod+" to answer", func(ctx context.Context) error {
		body, err := d.project.Exec(ctx, "nodeagent", number, "bash", "-c", script, address)
		if err == nil && !strings.Contains(body, "Welcome to nginx!") {
			err = fmt.Errorf("it answered %q", body)
		}
		return err
	})
	plane.Eventually(t, "the request to be in the log of "+pod, func(context.Context) error {
		if log := d.Must(t, "", "logs", pod); !strings.Contains(log, `"GET / HTTP/1.`) {
			return fmt.Errorf("got the log %q", log)
		}
		return nil
	})
}

// TestPlane brings the plane up from its images and runs real pods on it. Then it scales every
// service up and down under load, and checks that no acknowledged write is lost.
func TestPlane(t *testing.T) {
	d := deploy(t, nil)
	d.nodesReady(t, 1)
	manifest, err := os.ReadFile(filepath.Join(root, "test/e2e/testdata/nginx.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	d.Must(t, string(manifest), "create", "-f", "-")
	d.Must(t, "", "rollout", "status", "deployment/nginx-deployment")
	for pod, node := range d.pods(t, "app=nginx", 1) {
		d.answers(t, pod, node)
		d.Must(t, "", "logs", pod)
	}
	d.onlyNATS(t)
	for pod := range d.pods(t, "app=nginx", 1) {
		d.connects(t, pod)
	}

	// The images bring the database of time zones with them.
	d.Must(t, `{"apiVersion":"batch/v1","kind":"CronJob","metadata":{"name":"zoned"},"spec":{"schedule":"@yearly","timeZone":"Asia/Tokyo","suspend":true,"jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"nginx"}]}}}}}}`, "create", "-f", "-")

	// The token by which the node joined is out of reach of its pods.
	if found, err := d.project.Exec(t.Context(), "nodeagent", 1, "sh", "-c", "ls -A /join; grep -rls token: /join /var/lib/garboard/*/agent/pki; grep -q ' /join ' /proc/self/mountinfo && echo mounted; true"); err != nil || found != "" {
		t.Errorf("after joining, the node's container has %q (%v)", found, err)
	}

	work := begin(t, d.Kubeconfig())
	d.scale(t, map[string]int{"apiserver": 3, "controllers": 3, "scheduler": 2, "nodeagent": 5})
	d.nodesReady(t, 5)
	work.more(t, 50)
	d.subscriptions(t)
	d.ownFoldersOnly(t, 5)
	d.rollWithSurge(t, 5)
	d.Must(t, "", "scale", "deployment/nginx-deployment", "--replicas=6")
	used := map[string]bool{}
	for pod, node := range d.pods(t, "app=nginx", 6) {
		used[node] = true
		d.answers(t, pod, node)
	}
	addresses := strings.Fields(d.Must(t, "", "get", "pods", "-l", "app=nginx", "-o", "jsonpath={.items[*].status.podIP}"))
	slices.Sort(addresses)
	if distinct := slices.Compact(slices.Clone(addresses)); len(distinct) != 6 {
		t.Errorf("6 pods have the addresses %v", addresses)
	}
	if len(used) != 5 {
		t.Errorf("6 pods run on %v, want all 5 nodes", used)
	}
	work.more(t, 50)
	d.scale(t, map[string]int{"apiserver": 1, "controllers": 1, "scheduler": 1, "nodeagent": 1})
	// Removed nodes terminate their pods, and the controllers create replacements.
	for pod, node := range d.pods(t, "app=nginx", 6) {
		if !strings.HasSuffix(node, "-nodeagent-1") {
			t.Errorf("the pod %s runs on %s, which no longer exists", pod, node)
		}
	}
	work.more(t, 50)
	work.check(t)

	// The remaining containers do all of the work.
	d.Must(t, "", "delete", "deployment", "nginx-deployment")
	d.nodesReady(t, 1)
	d.Must(t, strings.ReplaceAll(string(manifest), "nginx-deployment", "again"), "create", "-f", "-")
	d.Must(t, "", "rollout", "status", "deployment/again")
}

// onlyNATS checks that a node reaches NATS, and neither the apiserver nor etcd nor the gateway, by their names
// or addresses.
func (d *deployed) onlyNATS(t *testing.T) {
	t.Helper()
	reaches := func(host, port string) bool {
		t.Helper()
		found, err := d.project.Exec(t.Context(), "nodeagent", 1, "bash", "-c", "timeout 3 bash -c '</dev/tcp/"+host+"/"+port+"' 2>/dev/null && echo yes || echo no")
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(found) == "yes"
	}
	if !reaches("nats", "4222") || !reaches("nats", "4223") {
		t.Error("the node does not reach NATS")
	}
	addresses := strings.Fields(d.Must(t, "", "get", "endpointslices", "-l", "kubernetes.io/service-name=kubernetes", "-o", "jsonpath={.items[*].endpoints[*].addresses[*]}"))
	if len(addresses) == 0 {
		t.Error("no apiserver has an address")
	}
	for _, host := range append(addresses, "apiserver") {
		if reaches(host, "6443") {
			t.Errorf("the node reaches the apiserver at %s", host)
		}
	}
	if reaches("etcd", "2379") || reaches("gateway", d.port) {
		t.Error("the node reaches etcd or the gateway")
	}
}

// connects reaches a pod through the apiserver, which has no route to it, and through its node, which has none to the
// apiserver. Another pod reaches it by the name of a Service, and the API.
func (d *deployed) connects(t *testing.T, pod string) {
	t.Helper()
	d.Must(t, "", "exec", pod, "--", "/usr/sbin/nginx", "-v")
	if page := d.Must(t, "", "get", "--raw", "/api/v1/namespaces/default/pods/"+pod+"/proxy/"); !strings.Contains(page, "Welcome to nginx!") {
		t.Errorf("the pod says %q through the proxy", page)
	}
	ctx, cancel := context.WithTimeout(t.Context(), plane.Patience)
	defer cancel()
	forward := d.Command(ctx, "port-forward", "--address=127.0.0.1", "pod/"+pod, ":80")
	out, err := forward.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := forward.Start(); err != nil {
		t.Fatal(err)
	}
	var port int
	if _, err := fmt.Fscanf(out, "Forwarding from 127.0.0.1:%d", &port); err != nil {
		t.Fatalf("reading what port-forward prints: %v", err)
	}
	if page, err := get(ctx, fmt.Sprintf("http://127.0.0.1:%d/", port)); err != nil || !strings.Contains(page, "Welcome to nginx!") {
		t.Errorf("the pod says %q, %v, through a forwarded port", page, err)
	}
	cancel()
	_ = forward.Wait() // It was killed.
	d.Must(t, "", "expose", "pod", pod, "--name", "greeter", "--port", "80")
	plane.Eventually(t, "a pod to reach a Service and the API", func(context.Context) error {
		res := d.Kubectl(t, "", "run", "client", "--image=busybox:1.36", "--restart=Never", "--rm", "--attach", "--quiet",
			"--env=SSL_CERT_FILE=/var/run/secrets/kubernetes.io/serviceaccount/ca.crt", "--command", "--",
			"sh", "-c", "wget -O- http://greeter && wget -O- https://kubernetes.default/version")
		if !strings.Contains(res.Stdout, "Welcome to nginx!") || !strings.Contains(res.Stdout, `"gitVersion"`) {
			_ = d.Kubectl(t, "", "delete", "pod", "client", "--ignore-not-found")
			return fmt.Errorf("exit code %d, %s%s", res.Code, res.Stdout, res.Stderr)
		}
		return nil
	})
	plane.Eventually(t, "kubectl top pod", func(context.Context) error {
		if res := d.Kubectl(t, "", "top", "pod", pod, "--no-headers"); res.Code != 0 {
			return errors.New(res.Stderr)
		}
		return nil
	})
}

// get returns what a web server says.
func get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(response.Body)
	return string(body), errors.Join(err, response.Body.Close())
}

// ownFoldersOnly checks that each node's container shows one folder of the volume that all nodes
// share, the node's own, also from a process that looks for other mounts of the volume. Otherwise
// pods that mount folders of a node could read the keys of the others.
func (d *deployed) ownFoldersOnly(t *testing.T, nodes int) {
	t.Helper()
	seen := map[string]bool{}
	for index := 1; index <= nodes; index++ {
		listed, err := d.project.Exec(t.Context(), "nodeagent", index, "ls", "-A", "/var/lib/garboard")
		if err != nil {
			t.Fatal(err)
		}
		folders := strings.Fields(listed)
		if len(folders) != 1 || !strings.HasSuffix(folders[0], fmt.Sprintf("-nodeagent-%d", index)) || seen[folders[0]] {
			t.Errorf("node %d shows the folders %v, want its own only", index, folders)
			continue
		}
		seen[folders[0]] = true
		// Its own key is there, and no other below any folder of the container.
		keys, err := d.project.Exec(t.Context(), "nodeagent", index, "sh", "-c",
			"find / -path /proc -prune -o -name nodeagent-client-current.pem -print 2>/dev/null; true") // folders of pods may vanish meanwhile
		if err != nil {
			t.Fatal(err)
		}
		if want := "/var/lib/garboard/" + folders[0] + "/agent/pki/nodeagent-client-current.pem"; strings.TrimSpace(keys) != want {
			t.Errorf("node %d shows the keys %q, want only %s", index, keys, want)
		}
	}
}

// maxSubscriptions is the bound of compose/nats/nats.conf for each connection.
const maxSubscriptions = 8192

// subscriptions checks that each process of the plane keeps far below the bound of subscriptions
// that NATS sets every client.
func (d *deployed) subscriptions(t *testing.T) {
	t.Helper()
	text, err := d.project.Exec(t.Context(), "nats", 1, "wget", "-q", "-O", "-", "http://127.0.0.1:8222/connz?limit=1024")
	if err != nil {
		t.Fatal(err)
	}
	var listed struct {
		Connections []struct {
			Name          string `json:"name"`
			Subscriptions int    `json:"subscriptions"`
		} `json:"connections"`
	}
	if err := json.Unmarshal([]byte(text), &listed); err != nil {
		t.Fatalf("reading NATS' connections: %v", err)
	}
	// Three apiservers, three controllers, two schedulers, five nodes.
	if len(listed.Connections) < 13 {
		t.Errorf("NATS has %d connections, want 13 at least", len(listed.Connections))
	}
	most := map[string]int{}
	for _, one := range listed.Connections {
		service, _, _ := strings.Cut(one.Name, " ")
		most[service] = max(most[service], one.Subscriptions)
		if one.Subscriptions > maxSubscriptions/8 {
			t.Errorf("%q has %d subscriptions, more than an eighth of %d", one.Name, one.Subscriptions, maxSubscriptions)
		}
	}
	t.Logf("most subscriptions of one connection: %v", most)
}

// require skips the test if Docker does not run, or fails it if GARBOARD_REQUIRE_COMPOSE=1.
func require(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "docker", "compose", "version")
	cmd.Stdout, cmd.Stderr = io.Discard, io.Discard
	err := cmd.Run()
	if err == nil {
		err = exec.CommandContext(t.Context(), "docker", "info").Run()
	}
	switch {
	case err == nil:
	case os.Getenv("GARBOARD_REQUIRE_COMPOSE") == "1":
		t.Fatalf("Docker and its compose plugin are required but cannot be used here: %v (go run ./test/compose/machine up)", err)
	default:
		t.Skipf("Docker and its compose plugin cannot be used here: %v", err)
	}
}

// freePort returns a port on which no process listens.
func freePort(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(plane.FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	return port
}
