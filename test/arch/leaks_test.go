package arch_test

import (
	"strings"
	"testing"

	"github.com/garboard/garboard/test/arch"
)

func TestLeaks(t *testing.T) {
	const (
		starts = "package a\nfunc A() { go A() }\n"
		tests  = "package a\nfunc TestA(t *testing.T) {}\n"
		main   = "package a\nfunc TestMain(m *testing.M) { goleak.VerifyTestMain(m) }\n"
		tag    = "//go:build containers\n\n"
	)
	for _, tt := range []struct {
		name   string
		files  map[string]string
		broken bool
	}{
		{"no goroutines", map[string]string{"a.go": "package a\n", "a_test.go": tests}, false},
		{"no tests", map[string]string{"a.go": starts}, false},
		{"no check", map[string]string{"a.go": starts, "a_test.go": tests}, true},
		{"a check", map[string]string{"a.go": starts, "a_test.go": tests, "main_test.go": main}, false},
		{"a TestMain without the check", map[string]string{
			"a.go": starts, "a_test.go": "package a\nfunc TestMain(m *testing.M) { m.Run() }\n",
		}, true},
		{"a test that starts goroutines", map[string]string{"a_test.go": "package a\nfunc TestA(t *testing.T) { t.Parallel() }\n"}, true},
		{"a check in some builds only", map[string]string{"a.go": starts, "a_test.go": tests, "main_test.go": tag + main}, true},
		{"a check in the same build as the tests", map[string]string{"a.go": starts, "a_test.go": tag + tests, "main_test.go": tag + main}, false},
		{"tests in some builds only", map[string]string{"a.go": starts, "a_test.go": tag + tests, "main_test.go": main}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := map[string]string{}
			for name, source := range tt.files {
				files["libs/a/"+name] = source
			}
			found, err := arch.Check(writeTree(t, files))
			if err != nil {
				t.Fatal(err)
			}
			found = alone(found)
			if !tt.broken && len(found) != 0 {
				t.Errorf("found %v", found)
			}
			if tt.broken && (len(found) != 1 || !strings.Contains(found[0].Why, "goleak.VerifyTestMain")) {
				t.Errorf("found %v, want one violation about goleak", found)
			}
		})
	}
}
