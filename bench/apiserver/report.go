package main

import (
	"fmt"
	"io"
	"time"

	"github.com/garboard/garboard/bench/measure"
)

// report prints rows of Markdown tables.
type report struct {
	measure.Report
	processes []string
}

func newReport(to io.Writer, processes []string) *report {
	return &report{Report: measure.Report{To: to}, processes: processes}
}

// cost is the CPU time that each process used for some work, and the duration of the work.
type cost struct {
	cpu  []time.Duration
	took time.Duration
}

// costColumns returns the headings for costCells.
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

// costCells returns the medians of the CPU time per operation, for n operations, in the given unit.
func (r *report) costCells(costs []cost, n int, unit time.Duration) []string {
	format := func(of func(c cost) time.Duration) string {
		values := make([]float64, len(costs))
		for i, c := range costs {
			values[i] = float64(of(c)) / float64(n) / float64(unit)
		}
		return fmt.Sprintf("%.3g", measure.Median(values))
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

// tookCell returns the median of the durations, in milliseconds.
func tookCell(costs []cost) string {
	values := make([]float64, len(costs))
	for i, c := range costs {
		values[i] = float64(c.took) / float64(time.Millisecond)
	}
	return fmt.Sprintf("%.4g", measure.Median(values))
}
