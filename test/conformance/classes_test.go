package main

import (
	"strings"
	"testing"
)

// TestClasses checks the embedded classes. A test of the module in the folder suite compares them
// with Kubernetes' own list.
func TestClasses(t *testing.T) {
	specs, err := readClasses(classesFile)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, s := range specs {
		counts[s.class]++
		if !strings.HasPrefix(s.name, "[sig-") || !strings.Contains(s.name, "[Conformance]") {
			t.Errorf("%q is not the name of a conformance spec", s.name)
		}
	}
	for class, want := range map[string]int{"A": 120, "B": 84, "C": 12, "D": 93, "E": 33, "F": 94, "G": 26} {
		if counts[class] != want {
			t.Errorf("class %s has %d specs, want %d", class, counts[class], want)
		}
	}
}

func TestReadClassesRefuses(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"one\n", "line 1: a spec before the first class"},
		{"== A\n", "line 1: a class needs"},
		{"== A: none\none\n\none\n", "line 4: a spec that is listed twice"},
	} {
		if _, err := readClasses(tc.text); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: got %v, want %q", tc.text, err, tc.want)
		}
	}
}

func TestChoose(t *testing.T) {
	all, err := readClasses("# head\n== A: nothing\none [Serial]\ntwo\n\n== B: more\nthree\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ classes, focus, want, fault string }{
		{"", "", "one [Serial],two,three", ""},
		{"A", "", "one [Serial],two", ""},
		{"B,A", "^t", "two,three", ""},
		{"", `\[Serial\]`, "one [Serial]", ""},
		{"C", "", "", `there is no class "C"`},
		{"A", "three", "", "no spec"},
		{"", "[", "", "-focus"},
	} {
		chosen, err := choose(all, tc.classes, tc.focus)
		var names []string
		for _, s := range chosen {
			names = append(names, s.name)
			if s.serial() != (s.name == "one [Serial]") {
				t.Errorf("%q: serial %v", s.name, s.serial())
			}
		}
		if got := strings.Join(names, ","); got != tc.want {
			t.Errorf("classes %q, focus %q: got %s, want %s", tc.classes, tc.focus, got, tc.want)
		}
		if tc.fault == "" && err != nil || tc.fault != "" && (err == nil || !strings.Contains(err.Error(), tc.fault)) {
			t.Errorf("classes %q, focus %q: got the error %v, want %q", tc.classes, tc.focus, err, tc.fault)
		}
	}
}
