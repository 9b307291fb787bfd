//go:build containers

package e2e_test

import (
	"testing"

	"github.com/garboard/garboard/test/containers/harness"
	"github.com/garboard/garboard/test/e2e/plane"
)

// TestDebugWithContainers runs the story of kubectl debug on a real containerd, and looks at what only
// processes show.
func TestDebugWithContainers(t *testing.T) {
	containers := harness.Start(t)
	p := plane.Start(t, plane.Binary(t), "--runtime", "containerd", "--containerd", containers.Endpoint())
	node := p.Must(t, "", "get", "nodes", "-o", "jsonpath={.items[0].metadata.name}")
	debugs(t, p, node)

	p.Must(t, "", "run", "seen", "--image=busybox:1.36", "--command", "--", "sleep", "4321")
	p.Must(t, "", "wait", "--for=condition=Ready", "pod/seen", "--timeout=150s")
	expect(t, p, "", ``, "debug", "seen", "--image=busybox:1.36", "--profile=general", "-c", "sees", "--target=seen", "--", "cat", "/proc/1/cmdline")
	expectSoon(t, p, `^sleep\x004321`, "logs", "seen", "-c", "sees")
	expect(t, p, "", `(?m)^the end$`, "debug", "seen", "--image=busybox:1.36", "--profile=general", "-c", "asks", "--attach",
		"--", "sh", "-c", "sleep 3; echo the end")
	// containerd detaches a client whose input has ended, unless the container's input ends with it.
	expect(t, p, "a line\n", ``, "debug", "seen", "--image=busybox:1.36", "--profile=general", "-c", "talks", "-i", "--", "sh", "-c", "head -n 1")
	expectSoon(t, p, `^a line\n$`, "logs", "seen", "-c", "talks")
	expect(t, p, "", ``, "debug", "seen", "--image=busybox:1.36", "--profile=general", "-c", "broken", "--", "/no/such/program")
	expectSoon(t, p, `^RunContainerError 128$`, "get", "pod", "seen", "-o", `jsonpath={.status.ephemeralContainerStatuses[?(@.name=="broken")].state.waiting.reason} `+
		`{.status.ephemeralContainerStatuses[?(@.name=="broken")].lastState.terminated.exitCode}`)
	p.Must(t, "", "delete", "pod", "seen", "--grace-period=1")
	noneLeft(t, containers)
}
