package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// fakePlane is a program that acts as `garboard up`: it notes its arguments and says that it is up, or
// fails if the flag --fail is given.
const fakePlane = `#!/bin/sh
echo "arguments: $*"
for argument; do [ "$argument" = --fail ] && exit 3; done
echo 'Garboard is up'
trap 'exit 0' TERM
while :; do read line <"$0.block"; [ "$line" = end ] && exit 4; done
`

// newProgram writes the fake plane, which blocks on a pipe.
func newProgram(t *testing.T) (program, log string) {
	t.Helper()
	dir := t.TempDir()
	program = filepath.Join(dir, "garboard")
	if err := os.WriteFile(program, []byte(fakePlane), 0o700); err != nil { //nolint:gosec // It is a program.
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(program+".block", 0o600); err != nil {
		t.Fatal(err)
	}
	return program, filepath.Join(dir, "plane.log")
}

func TestPlane(t *testing.T) {
	program, log := newProgram(t)
	p, err := startPlane(t.Context(), program, []string{"--nodes", "3"}, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := p.watch(t.Context())
	if err := ctx.Err(); err != nil {
		t.Errorf("the context ended with the plane up: %v", context.Cause(ctx))
	}
	cancel()
	p.stop()
	output, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if want := "--runtime simulated --nodes 1 --nodes 3\n"; !strings.Contains(string(output), want) {
		t.Errorf("the plane was started with %q, want %q", output, want)
	}
	if _, err := os.Stat(p.data); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the plane's data is left: %v", err)
	}
}

// TestPlaneEnds checks that a plane which ends during a run ends the run.
func TestPlaneEnds(t *testing.T) {
	program, log := newProgram(t)
	p, err := startPlane(t.Context(), program, nil, log)
	if err != nil {
		t.Fatal(err)
	}
	defer p.stop()
	ctx, cancel := p.watch(t.Context())
	defer cancel()
	if err := os.WriteFile(program+".block", []byte("end\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if why := context.Cause(ctx); !strings.Contains(why.Error(), "the plane ended: exit status 4") {
		t.Errorf("the context ended with %v", why)
	}
}

func TestPlaneFails(t *testing.T) {
	program, log := newProgram(t)
	if _, err := startPlane(t.Context(), program, []string{"--fail"}, log); err == nil || !strings.Contains(err.Error(), "exit status 3; see "+log) {
		t.Errorf("got %v", err)
	}
}

func TestIdentify(t *testing.T) {
	program, _ := newProgram(t)
	first, err := identify(settings{garboard: program})
	if err != nil {
		t.Fatal(err)
	}
	flags, err := identify(settings{garboard: program, upFlags: "--nodes 3"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	other, err := identify(settings{garboard: program})
	if err != nil {
		t.Fatal(err)
	}
	if first == flags || first == other {
		t.Errorf("different planes have the same name: %q, %q, %q", first, flags, other)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: x}}]\nclusters: [{name: x, cluster: {server: 'https://x:1'}}]\n"
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if server, err := identify(settings{kubeconfig: kubeconfig}); err != nil || server != "https://x:1" {
		t.Errorf("the name of a given plane is %q, %v", server, err)
	}
}
