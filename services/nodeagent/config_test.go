package nodeagent_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/service"
	"github.com/garboard/garboard/services/nodeagent"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// onPlane returns how to reach a plane that does not answer.
func onPlane() service.Config {
	return service.Config{API: &rest.Config{Host: "https://127.0.0.1:1"}, Bus: bus.Config{URLs: []string{"nats://127.0.0.1:1"}}}
}

func TestFaultsAreToldAtOnce(t *testing.T) {
	_, err := nodeagent.New(nodeagent.Config{NodeName: "Node_1", DataDir: "relative", MaxPods: -1, AllowedUnsafeSysctls: []string{"vm.swappiness"}, SystemLogQuery: true, Listen: "10250", TLSCertFile: "x"})
	if err == nil {
		t.Fatal("a wrong configuration was accepted")
	}
	for _, want := range []string{`the node name "Node_1" is not valid`, "no apiserver address", "no NATS server address", "no container runtime endpoint", `"relative" is not an absolute path`, "must not be negative, got -1", "needs the handler of system logs", "not HOST:PORT", "must be set together", `"vm.swappiness" are not known to be namespaced`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	good := nodeagent.Config{
		NodeName: "node-1", DataDir: t.TempDir(), Service: onPlane(),
		Runtime: nodeagent.RuntimeConfig{Endpoint: nodeagent.SimulatedRuntime},
	}
	agent, err := nodeagent.New(good)
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Ready(t.Context()); err == nil {
		t.Error("an agent that does not run is ready")
	}
}

// TestNewTouchesNoDisk: New does not create the data directory; Run does, and only it fails if that
// is impossible.
func TestNewTouchesNoDisk(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, fault := range map[string]string{filepath.Join(t.TempDir(), "data"): "", filepath.Join(file, "data"): "creating the node agent's data directory"} {
		agent, err := nodeagent.New(nodeagent.Config{
			NodeName: "node-1", DataDir: dir, Service: onPlane(),
			Runtime: nodeagent.RuntimeConfig{Endpoint: "unix://" + t.TempDir() + "/none.sock"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s exists before the agent runs", dir)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		err = agent.Run(ctx)
		cancel()
		if fault != "" && (err == nil || !strings.Contains(err.Error(), fault)) {
			t.Errorf("run in %s: %v, want %q", dir, err, fault)
		}
		if _, err := os.Stat(dir); fault == "" && err != nil {
			t.Errorf("the data directory of an agent that ran: %v", err)
		}
	}
}

// TestDataIsNobodyElses: Run restricts a data directory that other users can read.
func TestDataIsNobodyElses(t *testing.T) {
	for mode, want := range map[os.FileMode]os.FileMode{0o777: 0o750, 0o755: 0o750, 0o750: 0o750, 0o700: 0o700} {
		dir := filepath.Join(t.TempDir(), "data")
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, mode)); err != nil {
			t.Fatal(err)
		}
		agent, err := nodeagent.New(nodeagent.Config{
			NodeName: "node-1", DataDir: dir, Service: onPlane(),
			Runtime: nodeagent.RuntimeConfig{Endpoint: "unix://" + t.TempDir() + "/none.sock"},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_ = agent.Run(ctx) // There is no runtime.
		cancel()
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != want {
			t.Errorf("a data directory of mode %v has %v, want %v, %v", mode, info.Mode(), want, err)
		}
	}
}

func TestProbeRuntime(t *testing.T) {
	if err := nodeagent.ProbeRuntime(t.Context(), "unix://"+t.TempDir()+"/none.sock"); err == nil {
		t.Error("a missing socket answered")
	}
}

func TestLabelsOfTheNode(t *testing.T) {
	for label, refused := range map[string]string{
		"garboard.io/x": "", "plain": "", "topology.kubernetes.io/zone": "", "node.kubernetes.io/x": "", "a.kubelet.kubernetes.io/x": "",
		"node-role.kubernetes.io/control-plane": "unknown 'kubernetes.io' or 'k8s.io' labels",
		"node-restriction.kubernetes.io/secure": "unknown 'kubernetes.io' or 'k8s.io' labels",
		"x.k8s.io/y":                            "unknown 'kubernetes.io' or 'k8s.io' labels",
		"notkubernetes.io/x":                    "",
		"not a label":                           "invalid node labels: 'not a label=v'",
	} {
		_, err := nodeagent.New(nodeagent.Config{
			NodeName: "node-1", DataDir: t.TempDir(), Service: onPlane(),
			Runtime: nodeagent.RuntimeConfig{Endpoint: nodeagent.SimulatedRuntime}, Labels: map[string]string{label: "v"},
		})
		if (err == nil) != (refused == "") || err != nil && !strings.Contains(err.Error(), refused) {
			t.Errorf("%s: %v, want %q", label, err, refused)
		}
	}
}
