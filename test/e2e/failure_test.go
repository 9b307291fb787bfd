package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garboard/garboard/test/e2e/plane"
)

// TestUpRefuses checks that `garboard up` reports a user's mistake in one sentence, with exit code
// 1.
func TestUpRefuses(t *testing.T) {
	binary := plane.Binary(t)
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	corrupt := corruptData(t, binary)

	cases := []struct {
		name string
		args []string
		says []string
	}{
		{"a port in use", []string{"--listen", taken.Addr().String()}, []string{taken.Addr().String(), "--listen"}},
		{"a folder that cannot be created", []string{"--data-dir", filepath.Join(file, "data")}, []string{file, "--data-dir"}},
		{"data that cannot be read", []string{"--data-dir", corrupt}, []string{corrupt, "backup", "--data-dir"}},
		{"an unknown flag", []string{"--colour"}, []string{"unknown flag: --colour"}},
		{"an unknown runtime", []string{"--runtime", "docker"}, []string{"docker", "auto, containerd or simulated"}},
		{"a negative number of nodes", []string{"--nodes", "-1"}, []string{"--nodes"}},
		{"an address without a port", []string{"--listen", "localhost"}, []string{"localhost", "--listen"}},
		{"several nodes on one containerd", []string{"--nodes", "2", "--runtime", "containerd"}, []string{"--nodes", "simulated"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"up", "--data-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--runtime", "simulated"}, c.args...)
			code, stderr := run(t, binary, args...)
			if code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			lines := strings.Split(strings.TrimSpace(stderr), "\n")
			last := lines[len(lines)-1]
			if !strings.HasPrefix(last, "error: ") {
				t.Errorf("the last line on stderr is not an error:\n%s", stderr)
			}
			for _, want := range c.says {
				if !strings.Contains(last, want) {
					t.Errorf("got %q, want it to contain %q", last, want)
				}
			}
		})
	}
}

// TestUpLocksItsData starts a second plane on the data of a running one, which must refuse. The
// first must then exit on SIGINT (Ctrl-C) with code 0.
func TestUpLocksItsData(t *testing.T) {
	binary := plane.Binary(t)
	p := plane.Start(t, binary, "--runtime", "simulated")
	code, stderr := run(t, binary, "up", "--data-dir", p.DataDir, "--listen", "127.0.0.1:0", "--runtime", "simulated")
	if code != 1 || !strings.Contains(stderr, "in use by process") {
		t.Errorf("a second plane on the same data: exit code %d, %s", code, stderr)
	}
	if out := p.Must(t, "", "get", "ns", "default", "-o", "name"); out != "namespace/default\n" {
		t.Errorf("the response of the first one is %q", out)
	}
	if code := p.Interrupt(t); code != 0 {
		t.Errorf("exit code %d after SIGINT, want 0", code)
	}
}

// corruptData creates a data folder whose database is damaged.
func corruptData(t *testing.T, binary string) string {
	t.Helper()
	p := plane.Start(t, binary, "--runtime", "simulated")
	if code := p.Interrupt(t); code != 0 {
		t.Fatalf("exit code %d after SIGINT", code)
	}
	err := filepath.WalkDir(filepath.Join(p.DataDir, "etcd"), func(name string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		return os.WriteFile(name, bytes.Repeat([]byte("rubbish "), int(info.Size()/8)), 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	return p.DataDir
}

// run runs the program, which must exit by itself.
func run(t *testing.T, binary string, args ...string) (code int, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), plane.Patience)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Stderr = &out
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if ctx.Err() != nil {
		t.Fatalf("%v did not end:\n%s", args, out.String())
	}
	return cmd.ProcessState.ExitCode(), out.String()
}
