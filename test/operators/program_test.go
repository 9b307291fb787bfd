//go:build operators

package operators

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// program is an operator that a module contains.
type program struct {
	// path is the program's file.
	path string
	// source is the folder of the operator's module.
	source string
}

// build returns the program of the module in programs/name, which it builds unless the cache has this
// version. The program is that of a package; the module is that of the operator.
func build(t *testing.T, name, module, pkg string) program {
	t.Helper()
	folder := filepath.Join("programs", name)
	run := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir, cmd.Stderr = folder, os.Stderr
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go %s: %v", strings.Join(args, " "), err)
		}
		return strings.TrimSpace(string(out))
	}
	run("mod", "download", module)
	version, source, _ := strings.Cut(run("list", "-m", "-f", "{{.Version}} {{.Dir}}", module), " ")
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatalf("finding the user's cache: %v", err)
	}
	p := program{path: filepath.Join(cache, "garboard", "operators", name, version, name), source: source}
	if _, err := os.Stat(p.path); err == nil {
		return p
	} else if !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(p.path), 0o755); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	fmt.Fprintf(os.Stderr, "building %s %s, which takes minutes the first time\n", name, version)
	// A build that is interrupted must not leave a program at the path.
	unfinished := p.path + ".unfinished"
	run("build", "-ldflags=-s -w", "-o", unfinished, pkg)
	if err := os.Rename(unfinished, p.path); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(os.Stderr, "built %s %s in %s\n", name, version, time.Since(began).Round(time.Second))
	return p
}
