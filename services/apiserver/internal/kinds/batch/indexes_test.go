package batch

import (
	"testing"
)

func FuzzIndexes(f *testing.F) {
	f.Add("0,2-4", "5-7", int32(10))
	f.Fuzz(func(t *testing.T, completed, failed string, completions int32) {
		done, err := parseIndexes(completed, completions)
		if err != nil {
			return
		}
		last := int32(-1 << 31)
		for i, part := range done {
			if part.first > part.last || part.last >= completions || i > 0 && part.first <= last {
				t.Fatalf("%q: got %v", completed, done)
			}
			last = part.last
		}
		lost, err := parseIndexes(failed, completions)
		if err != nil || disjoint(completed, failed, completions) != nil || len(done)*len(lost) > 1<<16 {
			return
		}
		for _, a := range done {
			for _, b := range lost {
				if a.first <= b.last && b.first <= a.last {
					t.Fatalf("%q and %q are reported as disjoint", completed, failed)
				}
			}
		}
	})
}
