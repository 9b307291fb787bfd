package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// report has the results for each fault.
type report struct {
	mu   sync.Mutex
	rows []*row
}

// row has the results for one kind of fault: how often it was injected, how often everything was
// right afterwards, and how long after the fault's end.
type row struct {
	fault              string
	injected, survived int
	repairs            []time.Duration
}

// row returns a fault's row, a new one if there is none.
func (r *report) row(name string) *row {
	for _, known := range r.rows {
		if known.fault == name {
			return known
		}
	}
	added := &row{fault: name}
	r.rows = append(r.rows, added)
	return added
}

// add records one fault; survived reports whether everything was right after repair.
func (r *report) add(name string, survived bool, repair time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.row(name)
	known.injected++
	if survived {
		known.survived++
		known.repairs = append(known.repairs, repair)
	}
}

// markdown returns the table.
func (r *report) markdown() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var text strings.Builder
	text.WriteString("| fault | injected | survived | repair p50 | repair max |\n|---|---|---|---|---|\n")
	for _, known := range r.rows {
		middle, longest := "-", "-"
		if times := slices.Sorted(slices.Values(known.repairs)); len(times) > 0 {
			middle, longest = seconds(times[(len(times)-1)/2]), seconds(times[len(times)-1])
		}
		fmt.Fprintf(&text, "| %s | %d | %d | %s | %s |\n", known.fault, known.injected, known.survived, middle, longest)
	}
	return text.String()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
