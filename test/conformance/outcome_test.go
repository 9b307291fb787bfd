package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRead reads what the suite itself has printed.
func TestRead(t *testing.T) {
	for _, tc := range []struct {
		file  string
		code  int
		state string
		why   []string
	}{
		{"passed", 0, statePassed, nil},
		{"failed", 1, stateFailed, []string{
			"[FAILED] get resource API: the server could not find the requested resource",
			"In [It] at: /go/pkg/mod/k8s.io/kubernetes@v1.37.1/test/e2e/framework/conformance/conformance.go:525 @ 11/23/26 09:03:36.638",
		}},
		{"skipped", 0, stateSkipped, []string{
			"[SKIPPED] Only supported for node OS distro [windows] (not debian)",
			"In [BeforeEach] at: /go/pkg/mod/k8s.io/kubernetes@v1.37.1/test/e2e/windows/framework.go:40 @ 11/23/26 09:03:29.133",
		}},
	} {
		output, err := os.ReadFile(filepath.Join("testdata", tc.file+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		if found := read(output, tc.code); found.State != tc.state || !slices.Equal(found.Why, tc.why) {
			t.Errorf("%s: got %s, %q\nwant %s, %q", tc.file, found.State, found.Why, tc.state, tc.why)
		}
	}
}

// TestReadCrash checks that the end of the output is the reason if the suite names none.
func TestReadCrash(t *testing.T) {
	var text strings.Builder
	for i := range 100 {
		fmt.Fprintf(&text, "line %d\n\n", i)
	}
	found := read([]byte(text.String()+"panic: "+strings.Repeat("x", 2000)+"\n"), 2)
	if found.State != stateFailed || len(found.Why) != maxWhy || found.Why[0] != "line 86" || len(found.Why[maxWhy-1]) > maxWidth+len("…") {
		t.Errorf("got %s, %q", found.State, found.Why)
	}
}

// TestReadLong checks that a long reason keeps its begin and its place.
func TestReadLong(t *testing.T) {
	text := "  [FAILED] begin\n" + strings.Repeat("      more\n", 100) + "  In [It] at: x.go:1 @ now\n"
	found := read([]byte(text+"\n"+text), 1)
	if len(found.Why) != maxWhy || found.Why[0] != "[FAILED] begin" || found.Why[maxWhy-1] != "In [It] at: x.go:1 @ now" {
		t.Errorf("got %q", found.Why)
	}
}
