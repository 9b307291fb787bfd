package main

import (
	"fmt"
	"io"
	"time"

	"github.com/garboard/garboard/bench/measure"
	"github.com/garboard/garboard/bench/target"
)

// report prints rows of Markdown tables.
type report struct {
	measure.Report
	processes []string
}

func newReport(to io.Writer, processes []string) *report {
	return &report{Report: measure.Report{To: to}, processes: processes}
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
func (r *report) costCells(costs []target.Cost, n int, unit time.Duration) []string {
	format := func(of func(c target.Cost) time.Duration) string {
		values := make([]float64, len(costs))
		for i, c := range costs {
			values[i] = float64(of(c)) / float64(n) / float64(unit)
		}
		return fmt.Sprintf("%.3g", measure.Median(values))
	}
	var cells []string
	for i := range r.processes {
		cells = append(cells, format(func(c target.Cost) time.Duration { return c.CPU[i] }))
	}
	if len(r.processes) > 1 {
		cells = append(cells, "**"+format(func(c target.Cost) time.Duration {
			var sum time.Duration
			for _, d := range c.CPU {
				sum += d
			}
			return sum
		})+"**")
	}
	return cells
}

// tookCell returns the median of the durations, in milliseconds.
func tookCell(costs []target.Cost) string {
	values := make([]float64, len(costs))
	for i, c := range costs {
		values[i] = float64(c.Took) / float64(time.Millisecond)
	}
	return fmt.Sprintf("%.4g", measure.Median(values))
}
