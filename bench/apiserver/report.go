package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// report prints rows of Markdown tables.
type report struct {
	to        io.Writer
	processes []string
}

func newReport(to io.Writer, processes []string) *report {
	return &report{to: to, processes: processes}
}

// table begins a table.
func (r *report) table(title string, columns ...string) {
	r.printf("\n### %s\n\n| %s |\n|%s\n", title, strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
}

func (r *report) row(cells ...string) { r.printf("| %s |\n", strings.Join(cells, " | ")) }

func (r *report) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(r.to, format, args...) // a reader that is gone ends the program by itself
}

// cost is the CPU time that each process took for something, and the time that it lasted.
type cost struct {
	cpu  []time.Duration
	took time.Duration
}

// costColumns are the headings for costCells.
func (r *report) costColumns(unit string) []string {
	var columns []string
	for _, name := range r.processes {
		columns = append(columns, name+", "+unit)
	}
	if len(r.processes) > 1 {
		columns = append(columns, "**together, "+unit+"**")
	}
	return columns
}

// costCells are the medians of the CPU time for one of n things, in the given unit.
func (r *report) costCells(costs []cost, n int, unit time.Duration) []string {
	format := func(of func(c cost) time.Duration) string {
		values := make([]float64, len(costs))
		for i, c := range costs {
			values[i] = float64(of(c)) / float64(n) / float64(unit)
		}
		return fmt.Sprintf("%.3g", median(values))
	}
	var cells []string
	for i := range r.processes {
		cells = append(cells, format(func(c cost) time.Duration { return c.cpu[i] }))
	}
	if len(r.processes) > 1 {
		cells = append(cells, "**"+format(func(c cost) time.Duration {
			var sum time.Duration
			for _, d := range c.cpu {
				sum += d
			}
			return sum
		})+"**")
	}
	return cells
}

// tookCell is the median of how long each took, in milliseconds.
func tookCell(costs []cost) string {
	values := make([]float64, len(costs))
	for i, c := range costs {
		values[i] = float64(c.took) / float64(time.Millisecond)
	}
	return fmt.Sprintf("%.4g", median(values))
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
