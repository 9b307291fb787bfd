//go:build containers

package e2e_test

import (
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
