package harness

import (
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
			for deadline := time.Now().Add(time.Minute); ; {
				if len(containers.shims()) == 1 {
					break
				}
				if time.Now().After(deadline) {
					t.Fatal("the process never looked like a shim")
				}
				time.Sleep(10 * time.Millisecond)
			}
			if c.orphaned {
				for _, command := range containers.shims() {
					containers.orphaned[command] = true
				}
			}
			for deadline := time.Now().Add(time.Minute); ; {
				left, err := containers.Left()
				if err != nil {
					t.Fatal(err)
				}
				if len(left) == c.left {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("%d processes are left, want %d: %q", len(left), c.left, left)
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
}
