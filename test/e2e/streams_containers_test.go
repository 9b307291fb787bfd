//go:build containers

package e2e_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/garboard/garboard/test/containers/harness"
	"github.com/garboard/garboard/test/e2e/plane"
)

// TestStreamsWithContainers runs the story of connections on a real containerd.
func TestStreamsWithContainers(t *testing.T) {
	containers := harness.Start(t)
	p := plane.Start(t, plane.Binary(t), "--runtime", "containerd", "--containerd", containers.Endpoint())
	streams(t, p, "Welcome to nginx!")
	attaches(t, p)
	copies(t, p)
	noneLeft(t, containers)
}

// attaches attaches to containers that end, and to one that has a terminal, and reaches a port where nothing
// listens.
func attaches(t *testing.T, p *plane.Plane) {
	expect(t, p, "", `(?m)^the end$`, "run", "attached", "--image=busybox:1.36", "--restart=Never", "--attach", "--rm",
		"--pod-running-timeout=150s", "--command", "--", "sh", "-c", "sleep 3; echo the end")
	expect(t, p, "a line", `(?m)^a line`, "run", "talks", "--image=busybox:1.36", "--restart=Never", "-i", "--rm",
		"--pod-running-timeout=150s", "--command", "--", "cat")
	res := p.Kubectl(t, "", "run", "fails", "--image=busybox:1.36", "--restart=Never", "--attach", "--rm", "--pod-running-timeout=150s",
		"--command", "--", "sh", "-c", "sleep 3; exit 3")
	if res.Code != 3 {
		t.Errorf("attaching to a container that fails: exit code %d, want 3\n%s%s", res.Code, res.Stdout, res.Stderr)
	}
	p.Must(t, "", "run", "closed", "--image=busybox:1.36", "--command", "--", "sleep", "3600")
	p.Must(t, "", "wait", "--for=condition=Ready", "pod/closed", "--timeout=150s")
	expectFailure(t, p, `error trying to reach service.*connection refused`, "get", "--raw", "/api/v1/namespaces/default/pods/closed:81/proxy/")
	p.Must(t, "", "delete", "pod", "closed", "--grace-period=1")
}

// copies copies a folder into a pod and back, over both protocols.
func copies(t *testing.T, p *plane.Plane) {
	p.Must(t, "", "run", "holder", "--image=busybox:1.36", "--command", "--", "sleep", "3600")
	p.Must(t, "", "wait", "--for=condition=Ready", "pod/holder", "--timeout=150s")
	large := make([]byte, 20<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(large) // never fails
	for name, env := range map[string][]string{"SPDY": overSPDY, "WebSockets": overWebSockets} {
		from, back := t.TempDir(), filepath.Join(t.TempDir(), "back")
		if err := os.MkdirAll(filepath.Join(from, "sub"), 0o755); err != nil {
			t.Fatal(err)
		}
		for file, data := range map[string][]byte{"small": []byte("a file"), "sub/large": large} {
			if err := os.WriteFile(filepath.Join(from, file), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, args := range [][]string{{"cp", from, "holder:/" + name}, {"cp", "holder:/" + name, back}} {
			if res := kubectl(t, p, env, "", args...); res.Code != 0 {
				t.Errorf("%s: kubectl %v: %s%s", name, args, res.Stdout, res.Stderr)
			}
		}
		for file, want := range map[string][]byte{"small": []byte("a file"), "sub/large": large} {
			if got, err := os.ReadFile(filepath.Join(back, file)); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %s came back with %d bytes, %v", name, file, len(got), err)
			}
		}
	}
	p.Must(t, "", "delete", "pod", "holder", "--grace-period=1")
}
