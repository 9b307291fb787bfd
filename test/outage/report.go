package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// report collects the measurements of each fault.
type report struct {
	order  []string
	faults map[string]*measured
}

// measured has the measurements of every injection of one fault.
type measured struct {
	writes, reads, pods []time.Duration
	bad                 int
}

func (r *report) add(fault string, writes, reads, pods time.Duration, good bool) {
	if r.faults == nil {
		r.faults = map[string]*measured{}
	}
	m := r.faults[fault]
	if m == nil {
		m = &measured{}
		r.faults[fault] = m
		r.order = append(r.order, fault)
	}
	m.writes, m.reads, m.pods = append(m.writes, writes), append(m.reads, reads), append(m.pods, pods)
	if !good {
		m.bad++
	}
}

// markdown returns the report as a table.
func (r *report) markdown() string {
	var b strings.Builder
	b.WriteString("| fault | times | no write for, p50 / max | no read for, p50 / max | no new pod for, p50 / max | not survived |\n|---|---|---|---|---|---|\n")
	for _, name := range r.order {
		m := r.faults[name]
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %s | %d |\n", name, len(m.writes), both(m.writes), both(m.reads), both(m.pods), m.bad)
	}
	return b.String()
}

func both(all []time.Duration) string { return seconds(median(all)) + " / " + seconds(slices.Max(all)) }

func median(all []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[(len(sorted)-1)/2]
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
