package customresources

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// module is Kubernetes' module with the tests.
const module = "k8s.io/apiextensions-apiserver"

// results are what became of each test and subtest: pass, fail or skip.
type results struct{ outcome map[string]string }

// String returns how many tests there were, without those that have subtests.
func (r *results) String() string {
	count := map[string]int{}
	for name := range r.outcome {
		if !r.has(name, "pass", "fail", "skip") {
			count[r.outcome[name]]++
		}
	}
	return fmt.Sprintf("%d passed, %d failed, %d skipped", count["pass"], count["fail"], count["skip"])
}

// has reports whether a test has subtests with one of these outcomes.
func (r *results) has(parent string, outcomes ...string) bool {
	for name, outcome := range r.outcome {
		if strings.HasPrefix(name, parent+"/") && slices.Contains(outcomes, outcome) {
			return true
		}
	}
	return false
}

// readKnown returns the reasons of the known failures, by test. Each line has a test, or several by a name that
// ends in /*, and a reason.
func readKnown(file string) (map[string]string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	known := map[string]string{}
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, reason, _ := strings.Cut(line, " ")
		if _, double := known[name]; double || strings.TrimSpace(reason) == "" {
			return nil, fmt.Errorf("%s: %s is there twice, or has no reason", file, name)
		}
		known[name] = strings.TrimSpace(reason)
	}
	return known, nil
}

// covers reports whether an entry of the list is about a test: the test itself or, if it ends in /*, all its
// subtests.
func covers(entry, test string) bool {
	if all, ok := strings.CutSuffix(entry, "*"); ok {
		return strings.HasPrefix(test, all)
	}
	return entry == test
}

// judge returns what is wrong: tests that fail and are not known to, known failures that pass, and tests that
// did not run. A test fails for what is below it if one of its subtests fails. partly means that some were not
// to run.
func judge(r *results, known map[string]string, expected []string, partly bool) []string {
	var wrong []string
	failing := map[string]bool{} // by entry
	for _, name := range slices.Sorted(maps.Keys(r.outcome)) {
		if r.outcome[name] != "fail" || r.has(name, "fail") {
			continue
		}
		listed := false
		for entry := range known {
			if covers(entry, name) {
				failing[entry], listed = true, true
			}
		}
		if !listed {
			wrong = append(wrong, name+" fails")
		}
	}
	for _, entry := range slices.Sorted(maps.Keys(known)) {
		ran := false
		for name := range r.outcome {
			ran = ran || covers(entry, name)
		}
		switch {
		case failing[entry] || !ran && partly:
		case ran:
			wrong = append(wrong, entry+" passes: remove it from known.txt")
		default:
			wrong = append(wrong, entry+" did not run: remove it from known.txt, or see why")
		}
	}
	for _, name := range expected {
		if r.outcome[name] == "" && !partly {
			wrong = append(wrong, name+" did not run")
		}
	}
	return wrong
}

// TestJudge checks that no failure and no success goes unnoticed.
func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		outcome  map[string]string
		known    []string
		expected []string
		partly   bool
		want     []string
	}{
		"all is as known": {
			outcome: map[string]string{"TestA": "pass", "TestB": "fail", "TestC": "fail", "TestC/1": "fail", "TestC/2": "pass", "TestD": "skip"},
			known:   []string{"TestB", "TestC/1"}, expected: []string{"TestA", "TestB", "TestC", "TestD"},
		},
		"a new failure":         {outcome: map[string]string{"TestA": "fail"}, want: []string{"TestA fails"}},
		"a new failure below":   {outcome: map[string]string{"TestA": "fail", "TestA/1": "fail"}, known: []string{"TestA"}, want: []string{"TestA/1 fails", "TestA passes: remove it from known.txt"}},
		"a known one passes":    {outcome: map[string]string{"TestA": "pass"}, known: []string{"TestA"}, want: []string{"TestA passes: remove it from known.txt"}},
		"one of several passes": {outcome: map[string]string{"TestA": "fail", "TestA/1": "pass", "TestA/2": "fail"}, known: []string{"TestA/*"}},
		"all of several pass":   {outcome: map[string]string{"TestA": "pass", "TestA/1": "pass"}, known: []string{"TestA/*"}, want: []string{"TestA/* passes: remove it from known.txt"}},
		"a known one is gone":   {known: []string{"TestA"}, want: []string{"TestA did not run: remove it from known.txt, or see why"}},
		"one did not run":       {expected: []string{"TestA"}, want: []string{"TestA did not run"}},
		"few were to run":       {expected: []string{"TestA"}, known: []string{"TestA"}, partly: true},
		"a new failure of few":  {outcome: map[string]string{"TestA": "fail"}, partly: true, want: []string{"TestA fails"}},
	} {
		known := map[string]string{}
		for _, entry := range c.known {
			known[entry] = "a reason"
		}
		if got := judge(&results{c.outcome}, known, c.expected, c.partly); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
