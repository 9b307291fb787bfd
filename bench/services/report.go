package main

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/garboard/garboard/bench/measure"
)

// show prints a column for each side.
func (b *bench) show(n int, results map[string][]result) {
	columns := []string{fmt.Sprintf("%d Services of 10 endpoints", n)}
	for _, s := range b.sides {
		columns = append(columns, s.name)
	}
	b.report.Table(fmt.Sprintf("%d Services; medians of %d turns (smallest to largest)", n, b.repeats), columns...)
	for _, row := range []struct {
		name  string
		value func(result) float64
	}{
		{"start until all Services work, s", func(r result) float64 { return r.programmed.Seconds() }},
		{"CPU until then, s", func(r result) float64 { return r.programmedCPU.Seconds() }},
		{"one endpoint changes: write begun → in the kernel, median of a turn, ms", func(r result) float64 { return milliseconds(r.change) }},
		{"– the longest of a turn, ms", func(r result) float64 { return milliseconds(r.changeMost) }},
		{"– CPU each, of changes without a pause, ms", func(r result) float64 { return milliseconds(r.changeCPU) }},
		{"connection through Service 1, µs", func(r result) float64 { return 1e3 * milliseconds(r.first) }},
		{"connection through Service " + strconv.Itoa(n) + ", µs", func(r result) float64 { return 1e3 * milliseconds(r.last) }},
		{"– failed, of " + strconv.Itoa(2*connections), func(r result) float64 { return float64(r.failed) }},
		{"resident memory at rest, MB", func(r result) float64 { return float64(r.resident) / 1e6 }},
		{"– heap, stacks and other anonymous memory, MB", func(r result) float64 { return float64(r.anonymous) / 1e6 }},
		{"peak memory of the start, MB", func(r result) float64 { return float64(r.peak) / 1e6 }},
	} {
		cells := []string{row.name}
		for _, s := range b.sides {
			var values []float64
			for _, r := range results[s.name] {
				values = append(values, row.value(r))
			}
			cells = append(cells, fmt.Sprintf("**%.3g** (%.3g to %.3g)", measure.Median(values), slices.Min(values), slices.Max(values)))
		}
		b.report.Row(cells...)
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func megabytes(bytes int64) string { return fmt.Sprintf("%.1f", float64(bytes)/1e6) }
