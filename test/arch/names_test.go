package arch_test

import (
	"strings"
	"testing"

	"github.com/garboard/garboard/test/arch"
)

// TestNamesAreExplained checks that docs/NOMENCLATURE.md mentions the name of every package.
func TestNamesAreExplained(t *testing.T) {
	found, err := arch.UnexplainedNames(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range found {
		t.Error(v)
	}
}

func TestUnexplainedNames(t *testing.T) {
	files := map[string]string{
		"libs/known/known.go":                "package known\n",
		"libs/unknown/unknown.go":            "package unknown\n",
		"libs/onlytests/only_test.go":        "package onlytests\n",
		"services/scheduler/scheduler.go":    "package scheduler\n",
		"docs/NOMENCLATURE.md":               "| `bus/known` | is explained, unknowns are not |\n",
		"services/scheduler/internal/a/a.go": "package a\n",
	}
	found, err := arch.UnexplainedNames(writeTree(t, files))
	if err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for _, v := range found {
		dirs = append(dirs, v.File)
	}
	if got := strings.Join(dirs, " "); got != "libs/unknown services/scheduler/internal/a" {
		t.Errorf("got %q", got)
	}
}
