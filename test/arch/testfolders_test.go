package arch_test

import (
	"strings"
	"testing"

	"github.com/garboard/garboard/test/arch"
)

// TestTestsAreInTheirPlace applies the rule about folders of only tests to the tree.
func TestTestsAreInTheirPlace(t *testing.T) {
	found, err := arch.MisplacedTests(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range found {
		t.Error(v)
	}
}

func TestMisplacedTests(t *testing.T) {
	const code, tests, excepted = "package a\n", "package a_test\n", "libs/informer/workqueue/prioritytest"
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  string // the folder of the only violation; empty if there is none
	}{
		{"tests beside code", map[string]string{"libs/a/a.go": code, "libs/a/a_test.go": tests}, ""},
		{"in a library", map[string]string{"libs/a/a_test.go": tests}, "libs/a"},
		{"in a service", map[string]string{"services/x/internal/a/a_test.go": tests}, "services/x/internal/a"},
		{"in the root of a service", map[string]string{"services/x/a_test.go": tests}, "services/x"},
		{"below a service's tests", map[string]string{"services/x/internal/test/a/a_test.go": tests}, ""},
		{"below another folder of that name", map[string]string{"services/x/test/a/a_test.go": tests}, "services/x/test/a"},
		{"below test", map[string]string{"test/a/a_test.go": tests}, ""},
		{"benchmarks", map[string]string{"bench/a/a_test.go": tests}, ""},
		{"an exception that is not needed", map[string]string{excepted + "/a.go": code}, excepted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.files[excepted+"/a.go"] == "" {
				tt.files[excepted+"/a_test.go"] = tests
			}
			found, err := arch.MisplacedTests(writeTree(t, tt.files))
			if err != nil {
				t.Fatal(err)
			}
			var dirs []string
			for _, v := range found {
				dirs = append(dirs, v.File)
			}
			if got := strings.Join(dirs, " "); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
