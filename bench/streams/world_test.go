//go:build containers

package streams

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/apimachinery/pkg/util/httpstream" //nolint:staticcheck // What client-go takes.
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/garboard/garboard/bench/measure"
	"github.com/garboard/garboard/test/containers/harness"
	"github.com/garboard/garboard/test/e2e/plane"
)

// image is that of the containers.
const image = "docker.io/library/pump:1"

const pods = `
apiVersion: v1
kind: Pod
metadata: {name: pump}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: "docker.io/library/pump:1", args: [serve, "%d"]}]
`

// side is a way to the containers.
type side struct {
	name string
	// executor runs a command in the pod pump.
	executor func(b *testing.B, command []string, in bool) remotecommand.Executor
	// forward connects to the pod's ports.
	forward func(b *testing.B) httpstream.Dialer
}

// world is a plane with containers.
type world struct {
	plane *plane.Plane
	sides []side
	// processes are the plane's: one with all of it, or one with apiserver, NATS and etcd, and a node agent's.
	processes []measure.Process
}

func start(b *testing.B) *world {
	b.Helper()
	containers := harness.Start(b)
	program := filepath.Join(b.TempDir(), "pump")
	build := exec.CommandContext(b.Context(), "go", "build", "-ldflags=-s -w", "-o", program, "./pump")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("building pump: %v\n%s", err, out)
	}
	err := containers.Push(harness.Image{Repository: "library/pump", Tags: []string{"1"}, Binary: program, Path: "/pump", Entrypoint: []string{"/pump"}})
	if err != nil {
		b.Fatal(err)
	}
	p, processes := startPlane(b, containers)
	p.Must(b, fmt.Sprintf(pods, size), "create", "-f", "-")
	p.Must(b, "", "wait", "--for=condition=Ready", "pod/pump", "--timeout=150s")
	config, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig())
	if err != nil {
		b.Fatal(err)
	}
	w := &world{plane: p, processes: processes}
	const pod = "/api/v1/namespaces/default/pods/pump/"
	apiserver := server{config: config, exec: pod + "exec", forward: pod + "portforward", stdin: "stdin", out: "stdout", err: "stderr", asked: "true"}
	w.sides = []side{apiserver.through("garboard-websocket", true), apiserver.through("garboard-spdy", false)}
	if program := os.Getenv("GARBOARD_KUBELET"); program != "" {
		kubelet := startKubelet(b, program, containers)
		w.sides = append(w.sides, kubelet.through("kubelet-websocket", true), kubelet.through("kubelet-spdy", false))
	}
	w.sides = append(w.sides, beside(b, p, containers.Endpoint()))
	return w
}

// server serves the sessions of the pod: an apiserver, or a kubelet, which names paths and parameters differently.
type server struct {
	config          *rest.Config
	exec, forward   string
	stdin, out, err string // parameters that ask for a stream
	asked           string // the value of these
}

// through returns the way through a server, over WebSockets or SPDY.
func (s server) through(name string, webSocket bool) side {
	at := func(path string, query url.Values) *url.URL {
		u, err := url.Parse(s.config.Host)
		if err != nil {
			panic(err) // a configuration of our own
		}
		u.Path, u.RawQuery = path, query.Encode()
		return u
	}
	return side{name: name, executor: func(b *testing.B, command []string, in bool) remotecommand.Executor {
		b.Helper()
		query := url.Values{"command": command, s.out: {s.asked}, s.err: {s.asked}}
		if in {
			query.Set(s.stdin, s.asked)
		}
		if webSocket {
			executor, err := remotecommand.NewWebSocketExecutor(s.config, http.MethodGet, at(s.exec, query).String())
			must(b, err)
			return executor
		}
		executor, err := remotecommand.NewSPDYExecutor(s.config, http.MethodPost, at(s.exec, query))
		must(b, err)
		return executor
	}, forward: func(b *testing.B) httpstream.Dialer {
		b.Helper()
		if webSocket {
			dialer, err := portforward.NewSPDYOverWebsocketDialer(at(s.forward, nil), s.config)
			must(b, err)
			return dialer
		}
		return overSPDY(b, s.config, at(s.forward, nil))
	}}
}

// beside returns the way to the server of the container runtime, which prepares each session for one client.
func beside(b *testing.B, p *plane.Plane, endpoint string) side {
	b.Helper()
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(b, err)
	b.Cleanup(func() { _ = conn.Close() })
	client := cri.NewRuntimeServiceClient(conn)
	container := strings.TrimPrefix(p.Must(b, "", "get", "pod", "pump", "-o", "jsonpath={.status.containerStatuses[0].containerID}"), "containerd://")
	running, err := client.ContainerStatus(b.Context(), &cri.ContainerStatusRequest{ContainerId: container})
	must(b, err)
	list, err := client.ListContainers(b.Context(), &cri.ListContainersRequest{Filter: &cri.ContainerFilter{Id: running.GetStatus().GetId()}})
	must(b, err)
	sandbox := list.GetContainers()[0].GetPodSandboxId()
	config := &rest.Config{}
	return side{name: "containerd", executor: func(b *testing.B, command []string, in bool) remotecommand.Executor {
		b.Helper()
		answer, err := client.Exec(b.Context(), &cri.ExecRequest{ContainerId: container, Cmd: command, Stdin: in, Stdout: true, Stderr: true})
		must(b, err)
		u, err := url.Parse(answer.GetUrl())
		must(b, err)
		executor, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, u)
		must(b, err)
		return executor
	}, forward: func(b *testing.B) httpstream.Dialer {
		b.Helper()
		answer, err := client.PortForward(b.Context(), &cri.PortForwardRequest{PodSandboxId: sandbox})
		must(b, err)
		u, err := url.Parse(answer.GetUrl())
		must(b, err)
		return overSPDY(b, config, u)
	}}
}

func overSPDY(b *testing.B, config *rest.Config, to *url.URL) httpstream.Dialer {
	b.Helper()
	transport, upgrader, err := spdy.RoundTripperFor(config)
	must(b, err)
	return spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, to)
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// forwarded returns the local ports of the pod's ports until stop is called.
func forwarded(b *testing.B, from side, ports ...string) (local []uint16, stop func()) {
	b.Helper()
	ends, ready, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	forwarder, err := portforward.New(from.forward(b), ports, ends, ready, io.Discard, io.Discard)
	must(b, err)
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		b.Fatalf("forwarding ended with %v", err)
	}
	all, err := forwarder.GetPorts()
	must(b, err)
	for _, one := range all {
		local = append(local, one.Local)
	}
	return local, func() {
		close(ends)
		if err := <-ended; err != nil && !errors.Is(err, portforward.ErrLostConnectionToPod) {
			b.Error(err)
		}
	}
}

// run runs a command and returns the time to the first byte that it printed.
func run(ctx context.Context, executor remotecommand.Executor, in io.Reader) (first time.Duration, err error) {
	out := &firstByte{since: time.Now()}
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: out, Stderr: io.Discard})
	return out.after, err
}

// firstByte discards what is written, and notes when the first byte came.
type firstByte struct {
	since time.Time
	after time.Duration
	bytes int64
}

func (f *firstByte) Write(p []byte) (int, error) {
	if f.after == 0 {
		f.after = time.Since(f.since)
	}
	f.bytes += int64(len(p))
	return len(p), nil
}
