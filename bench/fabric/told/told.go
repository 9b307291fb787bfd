// Package told is what the benchmark's processes of informers are told, and tell.
package told

// The commands, one a line of standard input, each answered with one Answer.
const (
	// Start has all informers begin at once; the answer comes when all have synced.
	Start = "start"
	// Reach, with a revision, is answered when all informers are at it or beyond.
	Reach = "reach"
	// Count is answered at once.
	Count = "count"
)

// Answer is one line of standard output, as JSON.
type Answer struct {
	// Reached is when each informer had synced, or had reached the revision, in nanoseconds
	// since 1970.
	Reached []int64 `json:",omitempty"`
	// Calls is how often handlers were called since the last Count, and Late how long after
	// the object's writing was begun each call came, in nanoseconds, for those that say when.
	Calls int
	Late  []int64 `json:",omitempty"`
	// Asks, WholeViews, Gaps and Fallbacks are what followers count since the start: what was
	// asked of the apiservers, what was answered with a whole view, messages that could not
	// be applied when they came, and turns to HTTP.
	Asks, WholeViews, Gaps, Fallbacks int
}

// Written is the annotation with the time when the writing of an object was begun, in
// nanoseconds since 1970.
const Written = "bench.garboard/written"
