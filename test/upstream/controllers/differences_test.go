package upstream

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// difference is one that is intended. It must occur, and the test must exist.
type difference struct {
	// script and path match the scripts and the lines of dumps in which it occurs.
	script, path *regexp.Regexp
	// why says why no user is hurt.
	why string
	// test shows it: a folder from the root, and a test's name.
	folder, test string

	seen bool
}

// differences returns all that are intended.
func differences() []*difference {
	return nil
}

// TestDifferencesHaveTests checks that the test that each listed difference names exists.
func TestDifferencesHaveTests(t *testing.T) {
	for _, d := range differences() {
		files, err := filepath.Glob(filepath.Join(root, d.folder, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(text), "\nfunc "+d.test+"(t *testing.T)")
		}
		if !found || d.why == "" {
			t.Errorf("%s of %s: %s has no test %q, or no reason is given", d.path, d.script, d.folder, d.test)
		}
	}
}
