package harness

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestLeft checks which shims count as left behind, with processes that only look like shims.
func TestLeft(t *testing.T) {
	cases := map[string]struct {
		script   string
		orphaned bool
		left     int
	}{
		"containerd lives":                     {script: "read line", left: 1},
		"containerd was killed":                {script: "read line", orphaned: true},
		"containerd was killed, container not": {script: "sleep 100 & read line; kill $!", orphaned: true, left: 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			containers := &Containers{dir: t.TempDir(), orphaned: make(map[string]bool)}
			shim := exec.Command("sh", "-c", c.script)
			shim.Args = append([]string{filepath.Join(containers.dir, "containerd-shim")}, shim.Args[1:]...)
			input, err := shim.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := shim.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = input.Close()
				_ = shim.Wait() // "read" ends with an error
			})
			poll(t, func() string {
				if len(containers.shims()) != 1 {
					return "the process does not look like a shim"
				}
				return ""
			})
			if c.orphaned {
				for _, command := range containers.shims() {
					containers.orphaned[command] = true
				}
			}
			poll(t, func() string {
				left, err := containers.Left()
				if err != nil || len(left) != c.left {
					return fmt.Sprintf("%d processes are left, want %d: %q, error %v", len(left), c.left, left, err)
				}
				return ""
			})
		})
	}
}

// poll calls check until it returns an empty text, and fails the test if that takes a minute.
func poll(t *testing.T, check func() string) {
	t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-ticker.C {
		wrong := check()
		if wrong == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(wrong)
		}
	}
}
