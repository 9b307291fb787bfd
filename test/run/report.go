package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// beat is how often the report names the running packages.
	beat = 30 * time.Second
	// compileStep is the number of compiled packages per progress line.
	compileStep = 200
	// slowest is the number of packages, and of tests, listed at the end of the report.
	slowest = 10
	// kept bounds the stored output of a test or package, in bytes.
	kept = 256 << 10
)

// event is one line of go test -json; see `go doc test2json`.
type event struct {
	Action      string
	Package     string
	ImportPath  string // in build-output events
	Test        string
	Elapsed     float64 // seconds
	Output      string
	FailedBuild string
}

// report turns the events of go test into readable lines. Its methods are safe for concurrent use.
type report struct {
	out   io.Writer
	now   func() time.Time
	began time.Time

	mu           sync.Mutex
	total, done  int
	need, built  int
	race         bool
	running      map[string]time.Time
	output       map[string]*strings.Builder // by package, test and build
	took         map[string]float64          // by package
	testTook     map[string]float64          // by package and test, without tests in tests
	passed, skip int
	failures     []string
}

func newReport(out io.Writer, now func() time.Time, total int) *report {
	return &report{
		out: out, now: now, began: now(), total: total,
		running: map[string]time.Time{}, output: map[string]*strings.Builder{}, took: map[string]float64{}, testTook: map[string]float64{},
	}
}

// compiling starts the report of a compilation of at most need packages.
func (r *report) compiling(need int, race bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.need, r.built, r.race = need, 0, race
}

// compiled processes a line from the go tool: the name of a package, or an error.
func (r *report) compiled(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if strings.ContainsAny(line, " #:") {
		r.print("%s", line)
		return
	}
	if r.built++; r.built%compileStep == 0 {
		with := ""
		if r.race {
			with = " with the race detector"
		}
		r.print("%s compiling%s: %d of at most %d packages", r.clock(), with, r.built, r.need)
	}
}

// heartbeat reports the running packages every half minute, until the returned function is called.
func (r *report) heartbeat(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var ended sync.WaitGroup
	ended.Go(func() {
		ticks := time.NewTicker(beat)
		defer ticks.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticks.C:
				r.names()
			}
		}
	})
	return func() {
		cancel()
		ended.Wait()
	}
}

func (r *report) names() {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for _, path := range slices.Sorted(maps.Keys(r.running)) {
		names = append(names, fmt.Sprintf("%s (%.0fs)", short(path), r.now().Sub(r.running[path]).Seconds()))
	}
	if len(names) > 0 {
		r.print("%s %d of %d packages; running: %s", r.clock(), r.done, r.total, strings.Join(names, ", "))
	}
}

// read processes all events of a run of go test.
func (r *report) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				e = event{Action: "raw", Output: string(line)}
			}
			r.apply(e)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the output of the tests: %w", err)
		}
	}
}

func (r *report) apply(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := e.Package + "\x00" + e.Test
	switch e.Action {
	case "raw":
		r.print("%s", strings.TrimRight(e.Output, "\n"))
	case "start":
		r.running[e.Package] = r.now()
	case "build-output":
		r.note(e.ImportPath, e.Output)
	case "output":
		r.note(key, e.Output)
	case "pass", "skip", "fail":
		if e.Test == "" {
			r.ended(e)
		} else {
			r.test(e, key)
		}
		delete(r.output, key)
	}
}

func (r *report) note(key, text string) {
	b := r.output[key]
	if b == nil {
		b = &strings.Builder{}
		r.output[key] = b
	}
	if b.Len() < kept {
		b.WriteString(text)
	}
}

func (r *report) test(e event, key string) {
	if !strings.Contains(e.Test, "/") {
		r.testTook[short(e.Package)+" "+e.Test] = e.Elapsed
	}
	switch e.Action {
	case "pass":
		r.passed++
	case "skip":
		r.skip++
	case "fail":
		r.failures = append(r.failures, short(e.Package)+" "+e.Test)
		r.print("%s", strings.TrimRight(r.text(key), "\n"))
	}
}

// ended reports the end of a package. If it failed, its output from outside tests is printed: a
// panic, a leak, a race found after the last test.
func (r *report) ended(e event) {
	r.done++
	delete(r.running, e.Package)
	r.took[e.Package] = e.Elapsed
	word := "ok"
	if e.Action == "fail" {
		word = "FAIL"
		if text := r.text(e.FailedBuild) + r.text(e.Package+"\x00"); text != "" {
			r.print("%s", strings.TrimRight(text, "\n"))
		}
		r.unfinished(e.Package)
		r.failures = append(r.failures, short(e.Package))
	}
	r.print("%s [%3d/%d] %-4s %s %.1fs", r.clock(), r.done, r.total, word, short(e.Package), e.Elapsed)
}

// unfinished prints the output of a package's tests that never ended.
func (r *report) unfinished(path string) {
	for _, key := range slices.Sorted(maps.Keys(r.output)) {
		if test, ok := strings.CutPrefix(key, path+"\x00"); ok && test != "" {
			r.failures = append(r.failures, short(path)+" "+test+" (did not end)")
			r.print("%s", strings.TrimRight(r.text(key), "\n"))
			delete(r.output, key)
		}
	}
}

func (r *report) text(key string) string {
	if b := r.output[key]; b != nil {
		return b.String()
	}
	return ""
}

// failed reports whether a test or a package failed.
func (r *report) failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.failures) > 0
}

// end prints the slowest packages and tests, the failures and the counts.
func (r *report) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.longest("packages", r.took)
	r.longest("tests", r.testTook)
	tests := 0
	for _, name := range r.failures {
		r.print("FAIL %s", name)
		if strings.Contains(name, " ") {
			tests++
		}
	}
	r.print("%d of %d packages in %s", r.done, r.total, r.now().Sub(r.began).Round(time.Second))
	r.print("%d passed, %d failed, %d skipped", r.passed, max(tests, min(1, len(r.failures))), r.skip)
}

// longest prints what took the longest, if there is much.
func (r *report) longest(what string, took map[string]float64) {
	names := slices.SortedFunc(maps.Keys(took), func(a, b string) int { return cmp.Compare(took[b], took[a]) })
	if len(names) <= slowest {
		return
	}
	r.print("slowest %s:", what)
	for _, name := range names[:slowest] {
		r.print("  %6.1fs %s", took[name], short(name))
	}
}

func (r *report) print(format string, args ...any) { fmt.Fprintf(r.out, format+"\n", args...) }

func (r *report) clock() string {
	return fmt.Sprintf("%3dm%02ds", int(r.now().Sub(r.began).Minutes()), int(r.now().Sub(r.began).Seconds())%60)
}

func short(path string) string { return strings.TrimPrefix(path, "github.com/garboard/garboard/") }
