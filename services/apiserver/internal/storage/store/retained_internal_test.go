package store

import (
	"testing"
	"time"
)

// TestRetained checks for which revisions an answer of etcd holds, and how long.
func TestRetained(t *testing.T) {
	var r retained
	now := time.Now()
	if r.has(7, now) {
		t.Error("nothing was asked yet, and 7 is retained")
	}
	r.put(7, now)
	for name, test := range map[string]struct {
		revision int64
		after    time.Duration
		want     bool
	}{
		"the same": {7, 0, true}, "a later one": {8, retainedFor / 2, true}, "an earlier one": {6, 0, false}, "too late": {7, retainedFor, false},
	} {
		if got := r.has(test.revision, now.Add(test.after)); got != test.want {
			t.Errorf("%s: got %t, want %t", name, got, test.want)
		}
	}
}
