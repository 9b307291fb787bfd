package enablement_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/garboard/garboard/services/apiserver/internal/server/enablement"
)

// root is the project's folder.
const root = "../../../../.."

// row is what the page says of a gate.
type row struct {
	state, text string
	tests       []string // folder and name
}

// page returns the rows of docs/reference/feature-gates.md.
func page(t *testing.T) map[string]row {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/reference/feature-gates.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(text), "|---|---|---|---|\n")
	if !ok {
		t.Fatal("the page has no table of gates")
	}
	rows, quoted := map[string]row{}, regexp.MustCompile("`([^`]+)`")
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 {
			t.Fatalf("not a row: %q", line)
		}
		name := strings.TrimSpace(cells[1])
		if _, twice := rows[name]; twice {
			t.Errorf("%s is on the page twice", name)
		}
		r := row{state: strings.TrimSpace(cells[2]), text: strings.TrimSpace(cells[3])}
		for _, match := range quoted.FindAllStringSubmatch(cells[4], -1) {
			r.tests = append(r.tests, match[1])
		}
		rows[name] = r
	}
	return rows
}

// TestPage: the page has each gate that is on by default once, says what became of it, and names tests that
// exist.
func TestPage(t *testing.T) {
	rows := page(t)
	for _, gate := range enablement.Gates() {
		r, ok := rows[gate.Name]
		if ok != gate.Default {
			t.Errorf("%s is on the page: %t, is on by default: %t", gate.Name, ok, gate.Default)
		}
		delete(rows, gate.Name)
		if !ok {
			continue
		}
		if !slices.Contains([]string{"done", "refused", "elsewhere", "not runnable"}, r.state) || r.text == "" {
			t.Errorf("%s: the page says %q, %q", gate.Name, r.state, r.text)
		}
		if tested := r.state == "done" || r.state == "refused"; tested != (len(r.tests) > 0) {
			t.Errorf("%s is %s and has the tests %q", gate.Name, r.state, r.tests)
		}
		for _, test := range r.tests {
			if !exists(t, test) {
				t.Errorf("%s: there is no test %s", gate.Name, test)
			}
		}
	}
	for name := range rows {
		t.Errorf("%s is no gate of Kubernetes", name)
	}
}

// exists reports whether a test exists, written as its folder and name.
func exists(t *testing.T, test string) bool {
	t.Helper()
	folder, name, _ := strings.Cut(test, " ")
	for _, at := range []string{"services/apiserver/internal", "."} {
		files, err := filepath.Glob(filepath.Join(root, at, folder, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), "\nfunc "+name+"(t *testing.T) {") {
				return true
			}
		}
	}
	return false
}
