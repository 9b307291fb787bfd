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
	const controllers = "services/controllers/internal/"
	return []*difference{
		{
			script: regexp.MustCompile(`^(nodes|attach|taint-eviction)$`), path: regexp.MustCompile(`^Node [a-z-]+\.(new|node) \.spec\.taints\[`),
			why: "kube-controller-manager drops the taint not-ready:NoSchedule of a node that has never reported any condition, since " +
				"it derives taints from conditions alone. Here the taint of the registration stays until the first report, so that no " +
				"pod is bound to a node of which nothing is known. The first report, or its absence for a minute, makes both equal.",
			folder: controllers + "nodelifecycle", test: "TestANewNodeLosesItsTaintWhenItIsReady",
		},
	}
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
