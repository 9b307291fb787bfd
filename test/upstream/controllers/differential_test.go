package upstream

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"go.uber.org/goleak"
)

// ours and kcm are what the test calls the two sets of controllers.
const (
	ours = "garboard"
	kcm  = "kube-controller-manager"
)

const (
	// calm is for how long nothing is written before a plane counts as quiet.
	calm = 3 * time.Second
	// agreement is for how long two quiet planes may still differ: a controller may wait before it tries again.
	agreement = 20 * time.Second
	// unrest is when a plane that does not become quiet is compared all the same.
	unrest = time.Minute
)

var report = flag.String("report", "", "file for the table of writes")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestDifferential plays each script on a plane with our controllers and on one with kube-controller-manager, and
// compares what they write.
func TestDifferential(t *testing.T) {
	built := build(t)
	planes := [2]*plane{startPlane(t, built, false, quickSuccession...), startPlane(t, built, true, quickSuccession...)}
	for _, p := range planes {
		p.drive(t)
	}
	judge := &judge{planes: planes, known: differences(), writes: map[string][2]map[string]int{}}
	t.Run("scripts", func(t *testing.T) {
		for _, script := range scripts() {
			t.Run(script.name, func(t *testing.T) {
				t.Parallel()
				judge.play(t, script)
			})
		}
	})
	// A fault would disturb other scripts.
	t.Run("faults", func(t *testing.T) {
		for _, script := range faults() {
			t.Run(script.name, func(t *testing.T) { judge.play(t, script) })
		}
	})
	table := judge.table()
	t.Log("\n" + table)
	if *report != "" {
		if err := os.WriteFile(*report, []byte(table), 0o600); err != nil {
			t.Error(err)
		}
	}
	if len(judge.writes) < len(scripts())+len(faults()) {
		return // Only some were selected.
	}
	for _, d := range judge.known {
		if !d.seen {
			t.Errorf("the difference %q of %s no longer occurs: remove it from the list", d.path, d.script)
		}
	}
}

// judge compares two planes, the first of which has our controllers.
type judge struct {
	planes [2]*plane

	mu     sync.Mutex
	known  []*difference
	writes map[string][2]map[string]int // by script: of the controllers, by resource and verb
}

// play takes both planes through a script, and compares them after each step.
func (j *judge) play(t *testing.T, s script) {
	reported := map[string]bool{}
	for i, step := range append([]step{open()}, s.steps...) {
		began := time.Now()
		if err := j.both(func(p *plane) error {
			if err := step.do(t.Context(), p, s.name); err != nil {
				return fmt.Errorf("%s: step %d, %s: %w", p.name, i, step.what, err)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		found, err := j.settle(t.Context(), s.name, began, reported)
		if err != nil {
			t.Fatalf("after step %d, %s: %v", i, step.what, err)
		}
		for _, line := range found {
			t.Errorf("after step %d, %s: %v", i, step.what, line)
			reported[line.String()] = true
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.writes[s.name] = [2]map[string]int{j.planes[0].audit.counts(s.name), j.planes[1].audit.counts(s.name)}
}

// both does something on both planes at the same time.
func (j *judge) both(do func(p *plane) error) error {
	var errs [2]error
	var running sync.WaitGroup
	for i, p := range j.planes {
		running.Go(func() { errs[i] = do(p) })
	}
	running.Wait()
	return errors.Join(errs[:]...)
}

// settle waits until both planes are quiet and agree, and returns how they differ if they do not in time, besides what
// has been reported before.
func (j *judge) settle(ctx context.Context, home string, began time.Time, reported map[string]bool) ([]line, error) {
	for {
		var found []line
		var last [2]time.Time
		var dumps [2]dump
		errs := [2]error{}
		for i, p := range j.planes {
			if last[i], errs[i] = p.audit.quietSince(home); errs[i] == nil && p.controllers.died() {
				errs[i] = fmt.Errorf("%s ended by itself", p.name)
			}
		}
		if err := errors.Join(errs[:]...); err != nil {
			return nil, err
		}
		newest := began
		for _, at := range last {
			if at.After(newest) {
				newest = at
			}
		}
		quiet := time.Since(newest)
		if quiet > calm || time.Since(began) > unrest {
			for i, p := range j.planes {
				var err error
				if dumps[i], err = p.dump(ctx, home); err != nil {
					return nil, err
				}
			}
			found = slices.DeleteFunc(j.unknown(home, compare(dumps[0], dumps[1])), func(l line) bool { return reported[l.String()] })
			if len(found) == 0 || quiet > agreement || time.Since(began) > unrest {
				return found, nil
			}
		}
		select {
		case <-time.After(5 * pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// unknown returns the differences that are not listed.
func (j *judge) unknown(script string, lines []line) []line {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.DeleteFunc(lines, func(l line) bool {
		listed := false
		for _, d := range j.known {
			if d.script.MatchString(script) && d.path.MatchString(l.path) {
				d.seen, listed = true, true
			}
		}
		return listed
	})
}

// table returns how often the controllers have written in each script. Each line has a resource and a verb.
func (j *judge) table() string {
	text := &strings.Builder{}
	w := tabwriter.NewWriter(text, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(w, "script\twrite\t%s\t%s\t\n", ours, kcm)
	row := func(script, what string, a, b int) {
		note := ""
		if a > b {
			note = "more"
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\n", script, what, a, b, note)
	}
	for _, script := range slices.Sorted(maps.Keys(j.writes)) {
		counts := j.writes[script]
		all := maps.Clone(counts[0])
		maps.Copy(all, counts[1])
		var sums [2]int
		for _, what := range slices.Sorted(maps.Keys(all)) {
			row(script, what, counts[0][what], counts[1][what])
			sums[0], sums[1] = sums[0]+counts[0][what], sums[1]+counts[1][what]
		}
		row(script, "all", sums[0], sums[1])
	}
	_ = w.Flush()
	return text.String()
}
