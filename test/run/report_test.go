package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const prefix = `{"Package":"github.com/garboard/garboard/`

func TestReport(t *testing.T) {
	for name, c := range map[string]struct {
		events []string
		prints []string // in this order
		hides  []string
		failed bool
	}{
		"all pass": {
			events: []string{
				prefix + `a","Action":"start"}`,
				prefix + `a","Action":"output","Test":"TestA","Output":"noise of a test that passes\n"}`,
				prefix + `a","Action":"pass","Test":"TestA","Elapsed":1}`,
				prefix + `a","Action":"skip","Test":"TestB"}`,
				prefix + `a","Action":"pass","Elapsed":1.5}`,
			},
			prints: []string{"[  1/2] ok   a 1.5s", "1 of 2 packages", "\n1 passed, 0 failed, 1 skipped\n"},
			hides:  []string{"noise"},
		},
		"many tests": {
			events: slices.Concat([]string{prefix + `a","Action":"start"}`}, ended(11)),
			prints: []string{"slowest tests:\n    11.0s a Test11\n    10.0s a Test10\n", "     2.0s a Test2\n0 of 2 packages"},
			hides:  []string{"Test1\n", "/sub", "slowest packages"},
		},
		"a test fails": {
			events: []string{
				prefix + `a","Action":"start"}`,
				prefix + `a","Action":"output","Test":"TestA/one","Output":"a_test.go:7: wrong\n"}`,
				prefix + `a","Action":"fail","Test":"TestA/one","Elapsed":1}`,
				prefix + `a","Action":"fail","Elapsed":1}`,
			},
			prints: []string{"a_test.go:7: wrong", "[  1/2] FAIL a 1.0s", "FAIL a TestA/one", "\n0 passed, 1 failed, 0 skipped\n"},
			failed: true,
		},
		"a package panics in a test that never ends": {
			events: []string{
				prefix + `a","Action":"start"}`,
				prefix + `a","Action":"output","Test":"TestA","Output":"panic: no\n"}`,
				prefix + `a","Action":"fail","Elapsed":1}`,
			},
			prints: []string{"panic: no", "FAIL a TestA (did not end)", "1 failed"},
			failed: true,
		},
		"a leak after the last test": {
			events: []string{
				prefix + `a","Action":"output","Output":"goleak: found unexpected goroutines\n"}`,
				prefix + `a","Action":"fail","Elapsed":1}`,
			},
			prints: []string{"goleak: found", "FAIL a\n", "0 passed, 1 failed"},
			failed: true,
		},
		"does not compile": {
			events: []string{
				`{"ImportPath":"a [a.test]","Action":"build-output","Output":"a.go:1: undefined: x\n"}`,
				prefix + `a","Action":"fail","Elapsed":0,"FailedBuild":"a [a.test]"}`,
			},
			prints: []string{"undefined: x", "FAIL a 0.0s"},
			failed: true,
		},
		"no JSON": {events: []string{"go: cannot find main module"}, prints: []string{"cannot find main module"}},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			r := newReport(&out, func() time.Time { return time.Unix(0, 0) }, 2)
			if err := r.read(strings.NewReader(strings.Join(c.events, "\n"))); err != nil {
				t.Fatal(err)
			}
			r.end()
			rest := out.String()
			for _, want := range c.prints {
				_, after, found := strings.Cut(rest, want)
				if !found {
					t.Fatalf("%q is missing or out of order in:\n%s", want, out.String())
				}
				// The end of one line may be the start of the next.
				if rest = after; strings.HasSuffix(want, "\n") {
					rest = "\n" + after
				}
			}
			for _, hidden := range c.hides {
				if strings.Contains(out.String(), hidden) {
					t.Errorf("unwanted %q in:\n%s", hidden, out.String())
				}
			}
			if r.failed() != c.failed {
				t.Errorf("failed: %v, want %v", r.failed(), c.failed)
			}
		})
	}
}

// TestLargestFirst checks that packages with the most test code come first, and that packages
// without tests are left out.
// ended returns the ends of n tests that each took a second longer, and have a test in them.
func ended(n int) []string {
	var events []string
	for i := range n {
		events = append(events,
			fmt.Sprintf(prefix+`a","Action":"pass","Test":"Test%d/sub","Elapsed":100}`, i+1),
			fmt.Sprintf(prefix+`a","Action":"pass","Test":"Test%d","Elapsed":%d}`, i+1, i+1))
	}
	return events
}

func TestLargestFirst(t *testing.T) {
	dir := t.TempDir()
	for name, size := range map[string]int{"small_test.go": 1, "large_test.go": 100} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	packages, err := decode(strings.NewReader(`
		{"ImportPath":"none","Dir":"` + dir + `"}
		{"ImportPath":"small","Dir":"` + dir + `","TestGoFiles":["small_test.go"]}
		{"ImportPath":"large","Dir":"` + dir + `","XTestGoFiles":["large_test.go"]}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := (group{packages: packages}).paths(); strings.Join(got, " ") != "large small" {
		t.Errorf("got the order %v, want large before small", got)
	}
}

func TestCompilationIsReported(t *testing.T) {
	var out bytes.Buffer
	r := newReport(&out, func() time.Time { return time.Unix(0, 0) }, 1)
	r.compiling(300, true)
	for range 250 {
		r.compiled("example.com/pkg")
	}
	r.compiled("# example.com/pkg")
	if want := "  0m00s compiling with the race detector: 200 of at most 300 packages\n# example.com/pkg\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
