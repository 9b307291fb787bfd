// Package mutants checks that a test with random scripts finds faults: it builds the test with
// faults in the sources under test, and counts the scripts that fail.
package mutants

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Mutant is a fault.
type Mutant struct {
	Name string
	// In File, relative to the directory of the test, Old becomes New.
	File, Old, New string
	// More means that the mutant is tried only without -short.
	More bool
}

// enough is how many scripts must fail, so that one lucky script does not suffice.
const enough = 5

// Find builds the test in the working directory with each mutant, and without any, and runs the
// test function child with an additional environment variable. The child must call Report after
// each of its scripts. Find fails t if too few scripts fail with a mutant, or any fails without
// one.
func Find(t *testing.T, child, variable string, scripts int, mutants []Mutant) {
	t.Helper()
	for _, m := range append([]Mutant{{Name: "none"}}, mutants...) {
		t.Run(m.Name, func(t *testing.T) {
			if m.More && testing.Short() {
				return
			}
			output, err := run(t, m, child, variable)
			var differ, of int
			if at := strings.LastIndex(output, report); at >= 0 {
				if _, err := fmt.Sscanf(output[at:], report+"%d of %d", &differ, &of); err != nil {
					t.Fatalf("%v in:\n%s", err, output)
				}
			}
			t.Logf("%d of the %d scripts differ; the process ended with %v", differ, of, err)
			switch {
			case m.File == "" && (err != nil || differ != 0 || of != scripts):
				t.Errorf("%d of %d scripts differ without a mutant: %v\n%s", differ, of, err, output)
			case m.File != "" && differ < enough:
				t.Errorf("only %d of %d scripts found the mutant: %v\n%s", differ, of, err, output)
			}
		})
	}
}

const report = "scripts that differ: "

// Report prints how many scripts have failed so far. It is called after each script, since a mutant
// may make a later one hang.
func Report(differ int, of uint64) { fmt.Printf(report+"%d of %d\n", differ, of) }

// run builds the test with a mutant, and runs one test function of it.
func run(t *testing.T, m Mutant, child, variable string) (output string, err error) {
	t.Helper()
	dir := t.TempDir()
	overlay := map[string]map[string]string{"Replace": {}}
	if m.File != "" {
		source, err := os.ReadFile(m.File)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(source), m.Old); n != 1 {
			t.Fatalf("%s has %d places for the mutant, want 1: adapt the mutant to the source", m.File, n)
		}
		original, err := filepath.Abs(m.File)
		if err != nil {
			t.Fatal(err)
		}
		mutated := filepath.Join(dir, filepath.Base(m.File))
		overlay["Replace"][original] = mutated
		if err := os.WriteFile(mutated, []byte(strings.Replace(string(source), m.Old, m.New, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	replace, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, replace, 0o600); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "mutant.test")
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Fatalf("the go tool builds the mutants: %v", err)
	}
	build := exec.CommandContext(t.Context(), goTool, "test", "-c", "-ldflags", "-s -w", "-overlay", list, "-o", binary, ".")
	// As make builds, so that only the mutant is compiled.
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the mutant: %v\n%s", err, out)
	}
	command := exec.CommandContext(t.Context(), binary, "-test.run", "^"+child+"$", "-test.v")
	command.Env = append(os.Environ(), variable)
	out, err := command.CombinedOutput()
	return string(out), err
}
