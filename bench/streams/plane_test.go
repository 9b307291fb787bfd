//go:build containers

package streams

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/garboard/garboard/bench/measure"
	"github.com/garboard/garboard/test/containers/harness"
	"github.com/garboard/garboard/test/e2e/plane"
	"github.com/garboard/garboard/test/services"
)

// startPlane starts the plane and its processes. With GARBOARD_APART set the node agent has its own, as on other
// machines, and reaches the plane only over NATS, with TLS. If it is "each", every service has its own process.
func startPlane(b *testing.B, containers *harness.Containers) (*plane.Plane, []measure.Process) {
	b.Helper()
	switch os.Getenv("GARBOARD_APART") {
	case "each":
		return startEach(b, containers)
	case "":
		p := plane.Start(b, plane.Binary(b), "--runtime", "containerd", "--containerd", containers.Endpoint())
		return p, []measure.Process{{Name: "plane", PID: p.PID()}}
	}
	nats := plane.FreeAddress(b)
	p := plane.Start(b, plane.Binary(b), "--nodes", "0", "--nats-listen", nats)
	dir, data := b.TempDir(), b.TempDir()
	program, bootstrap := plane.Build(b, dir, "nodeagent"), filepath.Join(dir, "bootstrap-kubeconfig")
	res := p.Garboard(b, "token", "create", "--kubeconfig", p.Kubeconfig(), "--bootstrap-kubeconfig", bootstrap, "--ttl", "0")
	if res.Code != 0 {
		b.Fatalf("creating a token: %s%s", res.Stdout, res.Stderr)
	}
	agent := exec.CommandContext(context.WithoutCancel(b.Context()), program,
		"--node-name", "apart", "--runtime", containers.Endpoint(), "--data-dir", data,
		"--bootstrap-kubeconfig", bootstrap, "--nats-servers", "tls://"+nats, "--api-transport", "nats",
		"--pod-network=false", "--service-proxy=false", "--dns=false", "--health-address", "127.0.0.1:0")
	agent.Stderr = os.Stderr
	must(b, agent.Start())
	b.Cleanup(func() {
		_ = agent.Process.Signal(syscall.SIGTERM)
		_ = agent.Wait()
		must(b, harness.Unmount(data))
	})
	return p, []measure.Process{{Name: "servers", PID: p.PID()}, {Name: "agent", PID: agent.Process.Pid}}
}

// startEach starts a plane of which every service is a process.
func startEach(b *testing.B, containers *harness.Containers) (*plane.Plane, []measure.Process) {
	b.Helper()
	data := b.TempDir()
	b.Cleanup(func() { must(b, harness.Unmount(data)) })
	s := services.Start(b, "--runtime", containers.Endpoint(), "--data-dir", data, "--api-transport", "nats",
		"--pod-network=false", "--service-proxy=false", "--dns=false")
	var processes []measure.Process
	for _, name := range services.Names() {
		processes = append(processes, measure.Process{Name: name, PID: s.PID(name)})
	}
	return s.Plane, processes
}
