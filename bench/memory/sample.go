package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// sample is what one run used. Sizes are in bytes.
type sample struct {
	start, startCPU, idleCPU time.Duration
	resident, anonymous      int64
	// mapped is the resident memory of each mapped file, by its name.
	mapped map[string]int64
	// runtime has the fields of runtime.MemStats, after a collection.
	runtime    map[string]int64
	goroutines int64
}

type row struct {
	name  string
	value func(sample) float64
}

// rows returns the lines of the table.
func rows() []row {
	megabytes := func(bytes int64) float64 { return float64(bytes) / 1e6 }
	stat := func(name string) func(sample) float64 {
		return func(s sample) float64 { return megabytes(s.runtime[name]) }
	}
	return []row{
		{"resident, MB", func(s sample) float64 { return megabytes(s.resident) }},
		{"– anonymous", func(s sample) float64 { return megabytes(s.anonymous) }},
		{"– of the program's file", func(s sample) float64 { return megabytes(s.mapped["program"]) }},
		{"– of etcd's database", func(s sample) float64 { return megabytes(s.mapped["db"]) }},
		{"Go: live heap, MB", stat("HeapAlloc")},
		{"Go: stacks", stat("Stack")},
		{"Go: the collector, spans, profiles and others", func(s sample) float64 {
			return megabytes(s.runtime["GCSys"] + s.runtime["MSpan"] + s.runtime["BuckHashSys"] + s.runtime["OtherSys"])
		}},
		{"goroutines", func(s sample) float64 { return float64(s.goroutines) }},
		{"start until up, s", func(s sample) float64 { return s.start.Seconds() }},
		{"CPU until up, s", func(s sample) float64 { return s.startCPU.Seconds() }},
		{"CPU while idle, s", func(s sample) float64 { return s.idleCPU.Seconds() }},
	}
}

// sample measures the plane as it is; before is the CPU time that it had used when it came to rest.
// The kernel's numbers come first: asking the plane for its own
// makes it work.
func (p *plane) sample(ctx context.Context, before time.Duration) (sample, error) {
	s := sample{start: p.started, startCPU: p.startCPU}
	used, err := p.process.CPU()
	if err != nil {
		return s, err
	}
	s.idleCPU = used - before
	if s.resident, err = p.process.Resident(); err != nil {
		return s, err
	}
	if s.anonymous, err = p.process.Anonymous(); err != nil {
		return s, err
	}
	files, err := p.process.Mapped()
	if err != nil {
		return s, err
	}
	s.mapped = map[string]int64{}
	for path, bytes := range files {
		name := filepath.Base(path)
		if path == p.binary {
			name = "program"
		}
		s.mapped[name] += bytes
	}
	return s, p.ask(ctx, &s)
}

// ask adds what Go's runtime knows.
func (p *plane) ask(ctx context.Context, s *sample) error {
	heap, err := p.get(ctx, "/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		return err
	}
	s.runtime = map[string]int64{}
	for line := range strings.Lines(string(heap)) {
		// "# HeapAlloc = 123", and "# Stack = 123 / 456": in use and reserved.
		name, value, ok := strings.Cut(strings.TrimPrefix(line, "# "), " = ")
		if fields := strings.Fields(value); ok && len(fields) > 0 && strings.HasPrefix(line, "# ") {
			if number, err := strconv.ParseInt(fields[0], 10, 64); err == nil {
				s.runtime[name] = number
			}
		}
	}
	if s.runtime["HeapAlloc"] == 0 {
		return fmt.Errorf("the heap profile has no HeapAlloc")
	}
	goroutines, err := p.get(ctx, "/debug/pprof/goroutine?debug=1")
	if err != nil {
		return err
	}
	if _, err := fmt.Sscanf(string(goroutines), "goroutine profile: total %d", &s.goroutines); err != nil {
		return fmt.Errorf("reading the number of goroutines: %w", err)
	}
	return nil
}
