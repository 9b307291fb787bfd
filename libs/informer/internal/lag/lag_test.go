package lag

import (
	"testing"
	"time"
)

func TestProgress(t *testing.T) {
	var p Progress
	start := time.Unix(1000, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	check := func(when string, now int, revisions int64, seconds, silent float64) {
		t.Helper()
		if r, s, q := p.Lag(at(now)); r != revisions || s != seconds || q != silent {
			t.Errorf("%s: %d revisions, %v s, silent for %v s; want %d, %v, %v", when, r, s, q, revisions, seconds, silent)
		}
	}
	check("before anything", 0, 0, 0, -1)
	p.Know(5, at(0))
	check("known, never heard", 1, 5, 1, -1)
	p.Hear(7, at(2))
	check("heard", 4, 7, 4, 2)
	p.Reach(6, at(4))
	check("reached a part", 5, 1, 5, 3)
	p.Reach(7, at(5))
	check("reached all", 9, 0, 0, 7)
	p.Know(6, at(9))
	check("something old", 9, 0, 0, 7)
	p.Reach(3, at(10))
	check("went back", 12, 4, 2, 10)
}
