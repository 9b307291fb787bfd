package measure

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Report prints Markdown tables, row by row.
type Report struct{ To io.Writer }

// Table starts a table.
func (r Report) Table(title string, columns ...string) {
	r.Printf("\n### %s\n\n| %s |\n|%s\n", title, strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
}

// Row adds a row to the table.
func (r Report) Row(cells ...string) { r.Printf("| %s |\n", strings.Join(cells, " | ")) }

// Printf prints text between tables.
func (r Report) Printf(format string, args ...any) {
	_, _ = fmt.Fprintf(r.To, format, args...) // a closed pipe ends the program anyway
}

// Median returns the median of values, of which there must be at least one.
func Median[T interface {
	cmp.Ordered
	~int | ~int64 | ~float64
}](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Share returns the value below which the given share of the values lies, 0 to 1.
func Share[T cmp.Ordered](values []T, share float64) T {
	return slices.Sorted(slices.Values(values))[int(share*float64(len(values)-1))]
}
