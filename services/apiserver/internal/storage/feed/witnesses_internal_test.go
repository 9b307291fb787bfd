package feed

import (
	"slices"
	"testing"
)

// TestWitnesses checks that a deletion alone is no witness: the object may be absent in an etcd
// that was set back too. An unreadable value is no witness either.
func TestWitnesses(t *testing.T) {
	put := func(r int64) *Event { return &Event{Revision: r} }
	gone := func(r int64) *Event { return &Event{Revision: r, Deleted: true} }
	odd := func(r int64) *Event { return &Event{Revision: r, Deleted: true, unreadable: true} }
	for name, c := range map[string]struct {
		window []*Event
		want   []int64
	}{
		"none":             {},
		"a change":         {[]*Event{put(1), gone(2), put(3)}, []int64{3}},
		"a deletion":       {[]*Event{put(1), put(2), gone(3), gone(4)}, []int64{4, 2}},
		"only deletions":   {[]*Event{gone(3), gone(4)}, []int64{4}},
		"unreadable value": {[]*Event{put(1), odd(2)}, []int64{1}},
		"only unreadable":  {[]*Event{odd(2)}, nil},
		"and a deletion":   {[]*Event{put(1), odd(2), gone(3), odd(4)}, []int64{3, 1}},
	} {
		var got []int64
		for _, event := range witnesses(c.window) {
			got = append(got, event.Revision)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
