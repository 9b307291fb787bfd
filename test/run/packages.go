package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// raceFree lists the packages in which the race detector cannot find anything; test/arch checks the
// list.
const raceFree = "test/arch/norace.txt"

// pkg is a package with tests.
type pkg struct {
	ImportPath   string
	Dir          string
	TestGoFiles  []string
	XTestGoFiles []string

	size int64 // of its test files, in bytes
}

// group is a set of packages that are compiled and run with the same flags.
type group struct {
	race     bool
	packages []pkg
}

func (g group) paths() []string {
	paths := make([]string, len(g.packages))
	for i, p := range g.packages {
		paths[i] = p.ImportPath
	}
	return paths
}

// list returns the packages with tests, sorted by descending amount of test code.
func list(ctx context.Context, cfg config) ([]pkg, error) {
	args := append([]string{"list", "-json=ImportPath,Dir,TestGoFiles,XTestGoFiles", "-tags", cfg.tags, "--"}, cfg.patterns...)
	command := exec.CommandContext(ctx, "go", args...)
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("listing the packages: %w", err)
	}
	return decode(bytes.NewReader(out))
}

func decode(in io.Reader) ([]pkg, error) {
	var packages []pkg
	for decoder := json.NewDecoder(in); ; {
		var p pkg
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("reading the list of packages: %w", err)
		}
		for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
			if info, err := os.Stat(filepath.Join(p.Dir, name)); err == nil {
				p.size += info.Size()
			}
		}
		if len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 {
			packages = append(packages, p)
		}
	}
	slices.SortStableFunc(packages, func(a, b pkg) int { return cmp.Compare(b.size, a.size) })
	return packages, nil
}

// groups splits the packages into those without and those with the race detector.
func groups(cfg config, packages []pkg) []group {
	if !cfg.race {
		return []group{{packages: packages}}
	}
	data, err := os.ReadFile(raceFree)
	if err != nil {
		// Without the list, run everything with the detector, which is slower but equally correct.
		return []group{{race: true, packages: packages}}
	}
	listed := strings.Fields(string(data))
	var plain, raced []pkg
	for _, p := range packages {
		if slices.Contains(listed, p.ImportPath) {
			plain = append(plain, p)
		} else {
			raced = append(raced, p)
		}
	}
	return []group{{packages: plain}, {race: true, packages: raced}}
}

// flags returns the build flags of a group. They are the same for every command, so that the go
// tool compiles each package once.
func (g group) flags(cfg config) []string {
	// Without symbols for debuggers, a test is linked in half the time.
	flags := []string{"-tags", cfg.tags, "-ldflags=-s -w"}
	if g.race {
		flags = append(flags, "-race")
	}
	return flags
}

// environment returns the environment of the go tool. Only the race detector needs cgo. Without it,
// everything is compiled like the released programs, which saves compiling most packages twice. The linker
// collects its garbage less often, which takes a sixth to a quarter off its CPU time. At the end of each program
// the race detector sleeps for a second, in case another goroutine is about to report a race; where goroutines
// outlive the tests, goleak reports them.
func (g group) environment() []string {
	env := os.Environ()
	if ownGOGC() {
		env = append(env, "GOGC=400")
	}
	if g.race {
		env = append(env, "CGO_ENABLED=1")
		if os.Getenv("GORACE") == "" {
			env = append(env, "GORACE=atexit_sleep_ms=0")
		}
	}
	return env
}

// ownGOGC reports whether the go tool's GOGC is ours, and is to be kept from the tests.
func ownGOGC() bool { return os.Getenv("GOGC") == "" }

// compile compiles everything that the group's tests link.
func compile(ctx context.Context, cfg config, g group, r *report) error {
	if len(g.packages) == 0 {
		return nil
	}
	// The go tool builds nothing for a package that has only tests.
	const form = "{{if and (or .GoFiles .CgoFiles) (not (or .ForTest .Standard))}}{{.ImportPath}}{{end}}"
	args := slices.Concat([]string{"list", "-deps", "-test", "-f", form}, g.flags(cfg), []string{"--"}, g.paths())
	command := exec.CommandContext(ctx, "go", args...)
	command.Env, command.Stderr = g.environment(), os.Stderr
	out, err := command.Output()
	if err != nil {
		return fmt.Errorf("listing the dependencies of the tests: %w", err)
	}
	needed := slices.DeleteFunc(strings.Fields(string(out)), func(path string) bool { return strings.HasSuffix(path, ".test") })
	build := exec.CommandContext(ctx, "go", slices.Concat([]string{"build", "-v"}, g.flags(cfg), []string{"--"}, needed)...)
	build.Env = g.environment()
	errors, err := build.StderrPipe()
	if err != nil {
		return fmt.Errorf("reading the go tool's progress: %w", err)
	}
	if err := build.Start(); err != nil {
		return fmt.Errorf("compiling the dependencies of the tests: %w", err)
	}
	r.compiling(len(needed), g.race)
	for lines := bufio.NewScanner(errors); lines.Scan(); {
		r.compiled(lines.Text())
	}
	if err := build.Wait(); err != nil {
		return fmt.Errorf("compiling the dependencies of the tests: %w", err)
	}
	return nil
}

// test runs the group's tests. A failed test goes into the report; it is not an error.
func test(ctx context.Context, cfg config, g group, r *report) error {
	if len(g.packages) == 0 {
		return nil
	}
	// `make check` runs vet.
	flags := []string{
		"test", "-json", "-vet=off", "-timeout", cfg.timeout.String(),
		"-p", fmt.Sprint(cfg.packages), "-parallel", fmt.Sprint(cfg.parallel),
	}
	if ownGOGC() {
		flags = append(flags, "-exec", "env -u GOGC")
	}
	if cfg.count > 0 {
		flags = append(flags, "-count", fmt.Sprint(cfg.count))
	}
	command := exec.CommandContext(ctx, "go", slices.Concat(flags, g.flags(cfg), g.paths())...)
	command.Env, command.Stderr = g.environment(), os.Stderr
	out, err := command.StdoutPipe()
	if err != nil {
		return fmt.Errorf("reading the output of the tests: %w", err)
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("starting the tests: %w", err)
	}
	stop := r.heartbeat(ctx)
	err = r.read(out)
	stop()
	if wait := command.Wait(); err == nil && wait != nil && !r.failed() {
		err = fmt.Errorf("running the tests: %w", wait)
	}
	return err
}
