package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fakeSuite is a program that acts as the suite: the name of the spec says what to do. It notes when
// each spec begins and ends.
const fakeSuite = `#!/bin/sh
for argument; do case $argument in --ginkgo.focus=*) name=$argument;; esac; done
echo "+ $name" >>"$NOTES"
case $name in
*pass*) printf '\nRan 1 of 9 Specs in 0.1 seconds\n'; code=0;;
*none*) printf '\nRan 0 of 9 Specs in 0.1 seconds\n'; code=0;;
*hang*) trap 'printf "\n  [INTERRUPTED] Interrupted by User\n  In [It] at: x.go:1 @ now\n"; exit 1' INT
	echo hanging >>"$NOTES"; sleep 600 & wait; code=0;;
*) printf '  [FAILED] wrong\n  In [It] at: x.go:1 @ now\n\nRan 1 of 9 Specs in 0.1 seconds\n'; code=1;;
esac
echo "- $name" >>"$NOTES"
exit $code
`

// start returns a runner with the fake suite, and the path of its notes.
func start(t *testing.T, limit time.Duration, specs int) (*runner, *bytes.Buffer, string) {
	t.Helper()
	dir := t.TempDir()
	program, notes := filepath.Join(dir, "suite"), filepath.Join(dir, "notes")
	if err := os.WriteFile(program, []byte(fakeSuite), 0o700); err != nil { //nolint:gosec // It is a program.
		t.Fatal(err)
	}
	t.Setenv("NOTES", notes)
	results, err := openResults(filepath.Join(dir, "results.jsonl"), "plane")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = results.close() })
	var out bytes.Buffer
	return &runner{
		suite: suite{tests: program}, limit: limit, logs: filepath.Join(dir, "logs"), results: results, report: newReport(&out, time.Now, specs),
	}, &out, notes
}

func TestRunner(t *testing.T) {
	r, out, notes := start(t, time.Hour, 5)
	specs := []spec{{"A", "pass [Serial]"}, {"A", "pass"}, {"A", "none"}, {"A", "fail [Serial]"}, {"A", "pass too"}}
	if err := r.all(t.Context(), specs, 2); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{statePassed, statePassed, stateMissing, stateFailed, statePassed} {
		if found, _ := r.results.of(specs[i]); found.State != want {
			t.Errorf("%s: %s, want %s", specs[i].name, found.State, want)
		}
	}
	failed, _ := r.results.of(specs[3])
	if text, err := os.ReadFile(failed.Log); err != nil || !strings.Contains(string(text), "[FAILED] wrong") {
		t.Errorf("the log of the failed spec has %q, %v", text, err)
	}
	checkOrder(t, notes, specs)
	if r.report.end(specs, r.results) {
		t.Error("the report says that all passed")
	}
	for _, want := range []string{"[FAILED] wrong", "[  5/5]", "3 of 5 passed, 1 failed, 1 missing"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, out)
		}
	}
	if !r.report.end(specs[:2], r.results) {
		t.Error("the report says that not all passed")
	}
}

// checkOrder checks that serial specs ran alone after the others.
func checkOrder(t *testing.T, notes string, specs []spec) {
	t.Helper()
	text, err := os.ReadFile(notes)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != 2*len(specs) {
		t.Fatalf("%d notes, want %d:\n%s", len(lines), 2*len(specs), text)
	}
	for i, line := range lines {
		if serial := strings.Contains(line, `\[Serial\]`); serial != (i >= 6) {
			t.Errorf("serial specs did not run last:\n%s", text)
		}
		if i >= 6 && i%2 == 1 && line[1:] != lines[i-1][1:] {
			t.Errorf("a serial spec did not run alone:\n%s", text)
		}
	}
}

// TestRunnerLimit checks that a spec that takes too long is ended.
func TestRunnerLimit(t *testing.T) {
	r, _, _ := start(t, time.Second, 1)
	if err := r.all(t.Context(), []spec{{"A", "hang"}}, 1); err != nil {
		t.Fatal(err)
	}
	found, _ := r.results.of(spec{"A", "hang"})
	if found.State != stateTimeout {
		t.Errorf("got %+v, want a timeout", found)
	}
}

// TestRunnerInterrupted checks that an interrupted spec has no result, so that the next run runs it.
func TestRunnerInterrupted(t *testing.T) {
	r, _, notes := start(t, time.Hour, 2)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	why := errors.New("the plane ended")
	ended := make(chan error, 1)
	go func() { ended <- r.all(ctx, []spec{{"A", "hang"}, {"A", "pass"}}, 1) }()
	ticks := time.NewTicker(10 * time.Millisecond)
	defer ticks.Stop()
	for range ticks.C {
		if text, err := os.ReadFile(notes); err == nil && strings.Contains(string(text), "hanging") {
			break
		}
	}
	cancel(why)
	if err := <-ended; !errors.Is(err, why) {
		t.Errorf("got %v, want %v", err, why)
	}
	if todo := r.results.open([]spec{{"A", "hang"}, {"A", "pass"}}, false, false); len(todo) != 2 {
		t.Errorf("%v are left, want both", todo)
	}
}

// TestFileNames checks that specs whose long names begin alike have files of their own.
func TestFileNames(t *testing.T) {
	long := "[sig-auth] " + strings.Repeat("a word ", 40)
	names := []string{fileName(long + "one"), fileName(long + "two"), fileName("[sig-node] short")}
	if names[0] == names[1] || len(names[0]) > 255 || names[2] != "sig-node-short.log" {
		t.Errorf("got %q", names)
	}
}
