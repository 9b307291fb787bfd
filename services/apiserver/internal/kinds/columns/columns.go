// Package columns builds the tables that kubectl prints.
package columns

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/scheme"
)

// Options say what a table has in addition to its rows' cells.
type Options struct {
	// NoHeaders omits the column definitions.
	NoHeaders bool
	// Include returns what of the object with an index is sent with its row; nothing when nil.
	Include func(i int) runtime.RawExtension
}

// Table returns the table of objs at the time now. A nil layout shows name and creation time. meta is
// the list's, nil for a single object.
func (l *Layout) Table(objs []scheme.Object, meta *metav1.ListMeta, opts Options, now time.Time) *metav1.Table {
	if l == nil {
		l = plain()
	}
	table := &metav1.Table{Rows: make([]metav1.TableRow, 0, len(objs))}
	table.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("Table"))
	if meta != nil {
		table.ListMeta = *meta
	} else if len(objs) == 1 {
		table.ResourceVersion = objs[0].GetResourceVersion()
	}
	if !opts.NoHeaders {
		table.ColumnDefinitions = l.Columns
	}
	order := make([]int, len(objs))
	for i := range order {
		order[i] = i
	}
	if l.Order != nil {
		slices.SortStableFunc(order, func(a, b int) int { return l.Order(objs[a], objs[b]) })
	}
	for _, i := range order {
		row := metav1.TableRow{Cells: l.Cells(objs[i], now)}
		if opts.Include != nil {
			row.Object = opts.Include(i)
		}
		if l.Conditions != nil {
			row.Conditions = l.Conditions(objs[i])
		}
		table.Rows = append(table.Rows, row)
	}
	return table
}
