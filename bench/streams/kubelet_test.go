//go:build containers

package streams

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/test/chaos/plane"
	"github.com/garboard/garboard/test/containers/harness"
)

// kubeletPatience is how long a kubelet may take to run the pod.
const kubeletPatience = 3 * time.Minute

// kubeletConfig makes a kubelet without an apiserver serve everybody. It evicts nothing, and runs with the cgroups of
// this machine.
const kubeletConfig = `
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
address: 127.0.0.1
port: %d
healthzPort: 0
staticPodPath: %s
containerRuntimeEndpoint: %s
cgroupDriver: cgroupfs
cgroupRoot: %s
cgroupsPerQOS: false
enforceNodeAllocatable: []
failCgroupV1: false
failSwapOn: false
localStorageCapacityIsolation: false
evictionHard: {memory.available: 1Mi, nodefs.available: 1Mi, imagefs.available: 1Mi, nodefs.inodesFree: "1", imagefs.inodesFree: "1"}
`

// startKubelet starts a kubelet with a containerd of its own, and the pod pump.
func startKubelet(b *testing.B, program string, images *harness.Containers) server {
	b.Helper()
	containers := harness.StartLike(b, images)
	dir := b.TempDir()
	static := filepath.Join(dir, "pods")
	must(b, os.Mkdir(static, 0o755))
	port, err := plane.FreePort(b.Context())
	must(b, err)
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		must(b, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	config := write("kubelet.yaml", fmt.Sprintf(kubeletConfig, port, static, containers.Endpoint(), containers.Cgroup()))
	write("pods/pump.yaml", fmt.Sprintf(pods, size))
	log, err := os.Create(filepath.Join(dir, "kubelet.log"))
	must(b, err)
	command := exec.Command(program, "--config", config, "--root-dir", filepath.Join(dir, "root"), "--cert-dir", filepath.Join(dir, "pki"),
		"--hostname-override", "bench")
	command.Stdout, command.Stderr = log, log
	must(b, command.Start())
	b.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		_ = log.Close()
		if err := harness.Unmount(dir); err != nil {
			b.Error(err)
		}
	})
	host := fmt.Sprintf("https://127.0.0.1:%d", port)
	s := server{
		config: &rest.Config{Host: host, TLSClientConfig: rest.TLSClientConfig{Insecure: true}},
		exec:   "/exec/default/pump-bench/main", forward: "/portForward/default/pump-bench",
		stdin: "input", out: "output", err: "error", asked: "1",
	}
	ctx, cancel := context.WithTimeout(b.Context(), kubeletPatience)
	defer cancel()
	if err := s.await(ctx); err != nil {
		written, _ := os.ReadFile(log.Name())
		b.Fatalf("waiting for the kubelet's pod: %v\n%s", err, tail(written))
	}
	return s
}

// await waits until a command runs in the pod.
func (s server) await(ctx context.Context) error {
	client, err := rest.HTTPClientFor(s.config)
	if err != nil {
		return err
	}
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.config.Host+"/run/default/pump-bench/main?cmd=/pump%20first", nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err == nil {
			body, _ := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
			err = fmt.Errorf("%s: %s", response.Status, body)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Second):
		}
	}
}

// tail returns the last lines of a log.
func tail(log []byte) []byte {
	const most = 8 << 10
	log = log[max(0, len(log)-most):]
	return log[bytes.IndexByte(log, '\n')+1:]
}
