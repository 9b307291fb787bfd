package main

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMarkdown(t *testing.T) {
	var r report
	for _, repair := range []time.Duration{3 * time.Second, time.Second, 2 * time.Second} {
		r.add("a", true, repair)
	}
	r.add("a", false, time.Hour)
	r.add("b", false, 0)
	table := r.markdown()
	for _, want := range []string{"| a | 4 | 3 | 2.00 s | 3.00 s |\n", "| b | 1 | 0 | - | - |\n"} {
		if !strings.Contains(table, want) {
			t.Errorf("%q is missing in\n%s", want, table)
		}
	}
}

// TestFaultsAreNamed checks that each fault has a unique name, and that every plane has faults from
// inside and from outside.
func TestFaultsAreNamed(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range faults() {
		if f.name == "" || f.happen == nil || seen[f.name] {
			t.Errorf("the fault %q has no name, a duplicate name or no function", f.name)
		}
		seen[f.name] = true
	}
	for _, servers := range []int{1, 3} {
		inside, outside := possible(faults(), servers, false), possible(faults(), servers, true)
		if len(inside) == 0 || len(outside) == 0 {
			t.Errorf("%d servers: %d faults inside, %d outside", servers, len(inside), len(outside))
		}
		for _, f := range append(inside, outside...) {
			if f.servers > servers {
				t.Errorf("%d servers: %s needs %d servers", servers, f.name, f.servers)
			}
		}
	}
}
