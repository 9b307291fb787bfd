package e2e_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/garboard/garboard/test/e2e/plane"
)

// TestDebug runs the story of kubectl debug on the simulated runtime.
func TestDebug(t *testing.T) {
	p := plane.Start(t, plane.Binary(t), "--runtime", "simulated")
	debugs(t, p, "node-1")
}

// debugs debugs a pod by ephemeral containers and by a copy, and a node. The annotations are for the
// simulated runtime, whose containers otherwise run until they are stopped.
func debugs(t *testing.T, p *plane.Plane, node string) {
	expect(t, p, `apiVersion: v1
kind: Pod
metadata:
  name: web
  annotations:
    simulated.garboard.io/log.fails: said
    simulated.garboard.io/exit-code.fails: "3"
    simulated.garboard.io/exit-after.asks: 3s
    simulated.garboard.io/exit-after.talks: 3s
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: "busybox:1.36", command: [sleep, "3600"]}]
`, `pod/web created`, "create", "-f", "-")
	p.Must(t, "", "wait", "--for=condition=Ready", "pod/web", "--timeout=150s")
	state := func(container, field string) []string {
		return []string{"get", "pod", "web", "-o", `jsonpath={.status.ephemeralContainerStatuses[?(@.name=="` + container + `")].` + field + `}`}
	}
	debug := func(stdin, pattern, container string, args ...string) {
		t.Helper()
		all := append([]string{"debug", "web", "--image=busybox:1.36", "--profile=general", "-c", container}, args...)
		expect(t, p, stdin, pattern, all...)
	}

	debug("", ``, "fails", "--target=main", "--", "sh", "-c", "echo said; exit 3")
	expectSoon(t, p, `^3$`, state("fails", "state.terminated.exitCode")...)
	expect(t, p, "", `^said\n$`, "logs", "web", "-c", "fails")
	expectSoon(t, p, `^(Pulled|Pulling Pulled) Created Started$`, "get", "events", "--sort-by=.metadata.creationTimestamp",
		"--field-selector=involvedObject.fieldPath=spec.ephemeralContainers{fails}", "-o", "jsonpath={.items[*].reason}")

	debug("", ``, "stays", "--", "sleep", "3600")
	expectSoon(t, p, `^20.*Z$`, state("stays", "state.running.startedAt")...)
	expect(t, p, "", `^hello\n$`, "exec", "web", "-c", "stays", "--", "echo", "hello")
	debug("", ``, "asks", "--attach", "--", "sh", "-c", "sleep 3; echo the end")
	expectSoon(t, p, `^0$`, state("asks", "state.terminated.exitCode")...)
	debug("a line\n", ``, "talks", "-i", "--", "sh", "-c", "head -n 1")
	expectSoon(t, p, `^0$`, state("talks", "state.terminated.exitCode")...)
	expect(t, p, "", `^Running true 0$`, "get", "pod", "web", "-o",
		"jsonpath={.status.phase} {.status.containerStatuses[0].ready} {.status.containerStatuses[0].restartCount}")
	expect(t, p, "", `^asks fails stays talks$`, "get", "pod", "web", "-o", "jsonpath={.status.ephemeralContainerStatuses[*].name}")

	expect(t, p, "", ``, "debug", "web", "--image=busybox:1.36", "--profile=general", "--copy-to=copy", "-c", "extra", "--share-processes", "--", "sleep", "3600")
	p.Must(t, "", "wait", "--for=condition=Ready", "pod/copy", "--timeout=150s")
	expect(t, p, "", `^main extra$`, "get", "pod", "copy", "-o", "jsonpath={.spec.containers[*].name}")
	pod := debugNode(t, p, node)
	p.Must(t, "", "delete", "pod", "web", "copy", pod)
}

// debugNode runs a container that sees a node, and returns the name of its pod.
func debugNode(t *testing.T, p *plane.Plane, node string) string {
	t.Helper()
	res := p.Kubectl(t, "", "debug", "node/"+node, "--image=busybox:1.36", "--profile=general", "--", "sh", "-c", "ls /host/etc")
	found := regexp.MustCompile(`Creating debugging pod (node-debugger-\S+) with container debugger on node ` + node).FindStringSubmatch(res.Stdout + res.Stderr)
	if res.Code != 0 || found == nil {
		t.Fatalf("kubectl debug node/%s: exit code %d\n%s%s", node, res.Code, res.Stdout, res.Stderr)
	}
	plane.Eventually(t, "the log of the container that debugs the node", func(context.Context) error {
		if res := p.Kubectl(t, "", "logs", found[1]); !strings.Contains(res.Stdout, "passwd\n") && !strings.Contains(res.Stdout, "nothing runs") {
			return fmt.Errorf("it is %q: %s", res.Stdout, res.Stderr)
		}
		return nil
	})
	return found[1]
}
