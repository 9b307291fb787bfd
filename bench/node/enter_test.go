package node

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// folders prepares an empty folder for temporary files, and a go that builds nothing.
func folders(t *testing.T) (temporary string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	temporary = t.TempDir()
	t.Setenv("TMPDIR", temporary)
	programs := t.TempDir()
	if err := os.WriteFile(filepath.Join(programs, "go"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	return temporary
}

// within returns the processes in a network namespace.
func within(t *testing.T, namespace string) (found []string) {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if name, err := os.Readlink(link); err == nil && name == namespace {
			found = append(found, link)
		}
	}
	return found
}

func left(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

func TestEnterEndsEverythingWhenInterrupted(t *testing.T) {
	temporary := folders(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- Enter(ctx, sleepInside) }()
	tick := time.NewTicker(pollPause)
	defer tick.Stop()
	deadline, namespace := time.After(startTimeout), ""
	for namespace == "" {
		select {
		case err := <-ended:
			t.Fatalf("it ended before it was interrupted: %v", err)
		case <-deadline:
			t.Fatal("nothing runs inside")
		case <-tick.C:
		}
		if found, _ := filepath.Glob(filepath.Join(temporary, "*", namespaceFile)); len(found) == 1 {
			text, err := os.ReadFile(found[0])
			if err != nil {
				t.Fatal(err)
			}
			namespace = string(text)
		}
	}
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil || namespace == "" || namespace == own {
		t.Fatalf("the namespace inside is %q, outside %q: %v", namespace, own, err)
	}
	if inside := within(t, namespace); len(inside) < 2 {
		t.Errorf("inside there are only %v, without the program that was started", inside)
	}
	cancel()
	if err := <-ended; err != nil && !strings.Contains(err.Error(), context.Canceled.Error()) {
		t.Errorf("the end is an error: %v", err)
	}
	if inside := within(t, namespace); len(inside) > 0 {
		t.Errorf("programs run on: %v", inside)
	}
	if files := left(t, temporary); len(files) > 0 {
		t.Errorf("files stay: %v", files)
	}
}

func TestEnterStartsNothingAfterTheEnd(t *testing.T) {
	temporary := folders(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Enter(ctx, sleepInside); err == nil {
		t.Error("no error although the context had ended")
	}
	if files := left(t, temporary); len(files) > 0 {
		t.Errorf("files stay: %v", files)
	}
}

func TestProgram(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "log"), 0o700); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tc := range []struct {
		name, script string
		ctx          context.Context
		want         string // of Wait's error; none if empty
	}{
		{"ready", "echo ready; exec sleep 3600", t.Context(), ""},
		{"ends before", "echo why; exit 3", t.Context(), "its log ends with\nwhy"},
		{"interrupted", "exec sleep 3600", ended, "interrupted does not become ready"},
	} {
		p, err := Run(dir, tc.name, "sh", "-c", tc.script)
		if err != nil {
			t.Fatal(err)
		}
		err = p.Wait(tc.ctx, startTimeout, p.printed("ready"))
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: waiting gives %v, want %q", tc.name, err, tc.want)
		}
		for range 2 { // A second time it has ended already.
			if err := p.Stop(); err != nil {
				t.Errorf("%s: stopping: %v", tc.name, err)
			}
		}
		if _, err := os.Stat("/proc/" + strconv.Itoa(p.PID)); err == nil {
			t.Errorf("%s runs on", tc.name)
		}
	}
	if _, err := Run(dir, "none", filepath.Join(dir, "no such program")); err == nil {
		t.Error("a program that does not exist was started")
	}
	if names := left(t, filepath.Join(dir, "log")); !slices.Contains(names, filepath.Join(dir, "log", "ready")) {
		t.Errorf("the logs are %v", names)
	}
}
