package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// beat is how often the report names the running specs.
const beat = 30 * time.Second

// report prints progress and the summary. Its methods are safe for concurrent use.
type report struct {
	out   io.Writer
	now   func() time.Time
	start time.Time
	total int

	mu      sync.Mutex
	done    int
	running map[string]time.Time
}

func newReport(out io.Writer, now func() time.Time, total int) *report {
	return &report{out: out, now: now, start: now(), total: total, running: map[string]time.Time{}}
}

// began notes that a spec runs.
func (r *report) began(s spec) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running[s.name] = r.now()
}

// ended prints a spec's result.
func (r *report) ended(s spec, found result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.running, s.name)
	r.done++
	r.print("%s [%3d/%d] %-7s %5.1fs %s", r.clock(), r.done, r.total, found.State, found.Seconds, s.name)
	r.why(found)
}

func (r *report) why(found result) {
	for _, line := range found.Why {
		r.print("        %s", line)
	}
	if found.Log != "" {
		r.print("        all output: %s", found.Log)
	}
}

// heartbeat names the running specs at intervals, until the returned function is called.
func (r *report) heartbeat(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var ended sync.WaitGroup
	ended.Go(func() { every(ctx, beat, r.names) })
	return func() {
		cancel()
		ended.Wait()
	}
}

func (r *report) names() {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for name, began := range r.running {
		names = append(names, fmt.Sprintf("%s (%.0fs)", name, r.now().Sub(began).Seconds()))
	}
	if len(names) > 0 {
		slices.Sort(names)
		r.print("%s %d of %d; running: %s", r.clock(), r.done, r.total, strings.Join(names, ", "))
	}
}

// end prints every chosen spec that did not pass, with the reason, and the counts. It reports
// whether all passed.
func (r *report) end(chosen []spec, results *results) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := map[string]int{}
	for _, s := range chosen {
		found, ok := results.of(s)
		if !ok {
			found.State = stateMissing
		}
		counts[found.State]++
		if found.State != statePassed {
			r.print("%s %s", found.State, s.name)
			r.why(found)
		}
	}
	texts := []string{fmt.Sprintf("%d of %d passed", counts[statePassed], len(chosen))}
	for _, state := range []string{stateFailed, stateTimeout, stateSkipped, stateMissing} {
		if counts[state] > 0 {
			texts = append(texts, fmt.Sprintf("%d %s", counts[state], state))
		}
	}
	r.print("%s", strings.Join(texts, ", "))
	return counts[statePassed] == len(chosen)
}

func (r *report) print(format string, args ...any) { fmt.Fprintf(r.out, format+"\n", args...) }

func (r *report) clock() string {
	spent := int(r.now().Sub(r.start).Seconds())
	return fmt.Sprintf("%3dm%02ds", spent/60, spent%60)
}
