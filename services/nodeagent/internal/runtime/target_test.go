package runtime_test

import (
	"os"
	"strings"
	"testing"

	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

// testTarget creates containers that see the processes of another.
func testTarget(t *testing.T, b *bench) {
	pod := b.pod(t, nil)
	sandbox := b.sandbox(t, pod)
	main := b.shell(t, "main", "sleep 4321")
	main.Command = []string{"sleep", "4321"}
	target := b.start(t, sandbox, main, pod)
	for name, want := range map[string]string{target: "sleep 4321", "": "cat /proc/1/cmdline"} {
		cfg := b.shell(t, "sees-"+name, "cat /proc/1/cmdline")
		cfg.Command, cfg.TargetID = []string{"cat", "/proc/1/cmdline"}, name
		id := b.start(t, sandbox, cfg, pod)
		if !b.real {
			continue
		}
		c := b.find(t, id, ended)
		log, err := os.ReadFile(c.LogPath)
		if got := strings.ReplaceAll(string(log), "\x00", " "); err != nil || !strings.Contains(got, want) {
			t.Errorf("with the target %q it sees %q, %v; want %q", name, got, err, want)
		}
	}
	if err := b.client.StopContainer(t.Context(), target, 0); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		target: "invalid target container: container \"" + target + "\" is not running - in state CONTAINER_EXITED",
		"none": `invalid target container: container "none" does not exist: not found`,
	} {
		cfg := b.shell(t, "late", "true")
		cfg.TargetID = name
		if _, err := b.client.CreateContainer(t.Context(), sandbox, cfg, pod); err == nil || !strings.Contains(runtime.Describe(err), want) {
			t.Errorf("with a target that does not run: %v, want %q", err, want)
		}
	}
	// The containers of a sandbox that share all processes see them anyway.
	pod.SharePID = true
	cfg := b.shell(t, "shares", "sleep 1000")
	cfg.TargetID = target
	if !b.real { // The sandbox was created with another configuration.
		b.start(t, sandbox, cfg, pod)
	}
}
