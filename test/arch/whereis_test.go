package arch_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestAnswersAreFolders checks the questions at the end of the page on architecture: five for each
// service, each answered by a folder.
func TestAnswersAreFolders(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs/explanation/ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, questions, found := strings.Cut(string(page), "\n## Where is …?\n")
	if !found {
		t.Fatal("the page does not ask")
	}
	header := regexp.MustCompile("^\\| .*: where … \\| in `(.*)` \\|$")
	row := regexp.MustCompile("^\\| .*\\? \\| `(.*)` \\|$")
	answers, below := map[string]int{}, ""
	for line := range strings.Lines(questions) {
		line = strings.TrimSuffix(line, "\n")
		if m := header.FindStringSubmatch(line); m != nil {
			below = m[1]
		} else if m := row.FindStringSubmatch(line); m != nil {
			answers[below]++
			if info, err := os.Stat(filepath.Join(root, below, m[1])); err != nil || !info.IsDir() {
				t.Errorf("%s: there is no folder %s in %s", line, m[1], below)
			}
		}
	}
	for _, service := range []string{"apiserver", "controllers", "scheduler", "nodeagent"} {
		if n := answers["services/"+service+"/internal"]; n != 5 {
			t.Errorf("%d questions about the %s, want 5", n, service)
		}
	}
}
