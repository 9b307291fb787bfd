package arch_test

import (
	_ "embed"
	"slices"
	"strings"
	"testing"

	"github.com/garboard/garboard/test/arch"
)

// withoutRace lists the packages that continuous integration tests without the race detector.
//
//go:embed norace.txt
var withoutRace string

func TestPackagesWithoutRaceStartNoGoroutine(t *testing.T) {
	listed := strings.Split(strings.TrimSuffix(withoutRace, "\n"), "\n")
	found, err := arch.CheckWithoutRace(root, listed)
	if err != nil {
		t.Fatal(err)
	}
	for _, violation := range found {
		t.Errorf("norace.txt: %v", violation)
	}
	all, err := arch.WithoutRace(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		if !slices.Contains(listed, path) {
			t.Logf("norace.txt could also list %s: nothing there starts a goroutine", path)
		}
	}
}

func TestWithoutRaceSeesGoroutines(t *testing.T) {
	const quiet = "package a\n"
	const quietTest = "package a_test\n"
	for _, tt := range []struct {
		name  string
		files map[string]string
		// want is part of the violation; empty if there is none.
		want string
	}{
		{"nothing", map[string]string{"libs/a/a.go": quiet, "libs/a/a_test.go": quietTest}, ""},
		{"no tests", map[string]string{"libs/a/a.go": quiet}, "with tests"},
		{"a go statement", map[string]string{
			"libs/a/a.go": "package a\nfunc A() { go func() {}() }\n", "libs/a/a_test.go": quietTest,
		}, "libs/a/a.go has a go statement in line 2"},
		{"a test's go statement", map[string]string{
			"libs/a/a.go": quiet, "libs/a/a_test.go": "package a_test\nfunc f() { go f() }\n",
		}, "a_test.go has a go statement"},
		{"a group", map[string]string{
			"libs/a/a.go": "package a\nimport \"sync\"\nfunc A() { var w sync.WaitGroup; w.Go(nil) }\n", "libs/a/a_test.go": quietTest,
		}, "calls Go in line 3"},
		{"parallel tests", map[string]string{
			"libs/a/a.go": quiet, "libs/a/a_test.go": "package a_test\nimport \"testing\"\nfunc TestA(t *testing.T) { t.Parallel() }\n",
		}, "calls Parallel"},
		{"a test server", map[string]string{
			"libs/a/a_test.go": "package a_test\nimport \"net/http/httptest\"\nvar s = httptest.NewServer(nil)\n",
		}, "calls NewServer"},
		{"a recorder", map[string]string{
			"libs/a/a_test.go": "package a_test\nimport \"net/http/httptest\"\nvar s = httptest.NewRecorder()\n",
		}, ""},
		{"an embedded server", map[string]string{
			"libs/a/a_test.go": "package a_test\nimport _ \"go.etcd.io/etcd/server/v3/embed\"\n",
		}, "imports go.etcd.io/etcd/server/v3/embed"},
		{"a linked package", map[string]string{
			"libs/a/a.go":      "package a\nimport _ \"github.com/garboard/garboard/libs/b\"\n",
			"libs/a/a_test.go": quietTest,
			"libs/b/b.go":      "package b\nimport _ \"github.com/garboard/garboard/libs/c\"\n",
			"libs/c/c.go":      "package c\nfunc C() { go C() }\n",
		}, "links libs/c/c.go has a go statement"},
		{"a linked package's tests", map[string]string{
			"libs/a/a.go":      "package a\nimport _ \"github.com/garboard/garboard/libs/b\"\n",
			"libs/a/a_test.go": quietTest,
			"libs/b/b.go":      "package b\n",
			"libs/b/b_test.go": "package b\nfunc f() { go f() }\n",
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := writeTree(t, tt.files)
			found, err := arch.CheckWithoutRace(dir, []string{arch.Module + "/libs/a"})
			if err != nil {
				t.Fatal(err)
			}
			all, err := arch.WithoutRace(dir)
			if err != nil {
				t.Fatal(err)
			}
			if tt.want == "" {
				if len(found) != 0 || !slices.Contains(all, arch.Module+"/libs/a") {
					t.Errorf("found %v; packages without race: %v", found, all)
				}
				return
			}
			if len(found) != 1 || !strings.Contains(found[0].Why, tt.want) {
				t.Errorf("found %v, want one violation with %q", found, tt.want)
			}
			if slices.Contains(all, arch.Module+"/libs/a") {
				t.Errorf("got packages without race %v", all)
			}
		})
	}
}

func TestListWithoutRaceIsSorted(t *testing.T) {
	dir := writeTree(t, map[string]string{"libs/a/a_test.go": "package a_test\n", "libs/b/b_test.go": "package b_test\n"})
	for _, listed := range [][]string{{"libs/b", "libs/a"}, {"libs/a", "libs/a"}} {
		for i := range listed {
			listed[i] = arch.Module + "/" + listed[i]
		}
		found, err := arch.CheckWithoutRace(dir, listed)
		if err != nil {
			t.Fatal(err)
		}
		if len(found) != 1 || !strings.Contains(found[0].Why, "sorted") {
			t.Errorf("%v: got %v, want one violation about sorting", listed, found)
		}
	}
}
