// Package messages defines the messages between the benchmark and its processes of informers.
package messages

// The commands, one per line of standard input, each answered with one Answer.
const (
	// Start starts all informers at once; the answer follows when all have synced.
	Start = "start"
	// Reach, with a revision, is answered when all informers have reached it.
	Reach = "reach"
	// Count is answered immediately.
	Count = "count"
)

// Answer is one line of standard output, as JSON.
type Answer struct {
	// Reached has the times at which each informer had synced, or had reached the revision, in
	// nanoseconds since 1970.
	Reached []int64 `json:",omitempty"`
	// Calls is the number of handler calls since the last Count. Late has, for objects with a
	// Written annotation, the time from the start of the write to the call, in nanoseconds.
	Calls int
	Late  []int64 `json:",omitempty"`
	// Asks, WholeViews, Gaps and Fallbacks are the followers' counters since the start: asks to the
	// apiservers, asks answered with a whole view, messages that could not be applied when they
	// arrived, and fallbacks to HTTP.
	Asks, WholeViews, Gaps, Fallbacks int
}

// Written is the annotation with the start time of an object's write, in nanoseconds since 1970.
const Written = "bench.garboard/written"
