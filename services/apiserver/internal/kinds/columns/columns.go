// Package columns makes the tables that kubectl prints: for each kind Kubernetes' columns and
// cells.
package columns

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
)

// Columns makes tables. It never changes after New and may be used from any goroutine.
type Columns struct {
	now     func() time.Time
	layouts map[schema.GroupVersionKind]layout
	other   layout
}

// layout is the columns of one kind and its cells, which stand in the columns' order.
type layout struct {
	columns []metav1.TableColumnDefinition
	cells   func(obj scheme.Object, now time.Time) []any
	// order is that of the rows; nil keeps the list's.
	order func(a, b scheme.Object) int
}

// New makes the columns of all kinds; ages are measured by the machine's clock.
func New() *Columns {
	return &Columns{now: time.Now, layouts: layouts(), other: plain()}
}

// Table gives the table of objs, which are of kind gvk; kinds without columns of their own get
// name and creation time. meta is the list's, nil for a single object. opts says whether
// column definitions are left out and what of the objects is included; nil means defaults.
func (c *Columns) Table(gvk schema.GroupVersionKind, objs []scheme.Object, meta *metav1.ListMeta, opts *metav1.TableOptions) *metav1.Table {
	l, ok := c.layouts[gvk]
	if !ok {
		l = c.other
	}
	if opts == nil {
		opts = &metav1.TableOptions{}
	}
	table := &metav1.Table{Rows: make([]metav1.TableRow, 0, len(objs))}
	table.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("Table"))
	if meta != nil {
		table.ListMeta = *meta
	} else if len(objs) == 1 {
		table.ResourceVersion = objs[0].GetResourceVersion()
	}
	if !opts.NoHeaders {
		table.ColumnDefinitions = l.columns
	}
	if l.order != nil {
		objs = slices.SortedStableFunc(slices.Values(objs), l.order)
	}
	now := c.now()
	for _, obj := range objs {
		row := metav1.TableRow{Cells: l.cells(obj, now), Conditions: conditions(obj)}
		row.Object = included(obj, opts.IncludeObject)
		table.Rows = append(table.Rows, row)
	}
	return table
}

// included is the part of an object that travels with its row: its metadata unless the client
// asked otherwise.
func included(obj scheme.Object, policy metav1.IncludeObjectPolicy) runtime.RawExtension {
	switch policy {
	case metav1.IncludeNone:
		return runtime.RawExtension{}
	case metav1.IncludeObject:
		return runtime.RawExtension{Object: obj}
	}
	return runtime.RawExtension{Object: Partial(obj)}
}

// Partial gives the metadata of an object as a PartialObjectMetadata. It shares obj's maps.
func Partial(obj scheme.Object) *metav1.PartialObjectMetadata {
	partial := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: obj.GetName(), GenerateName: obj.GetGenerateName(), Namespace: obj.GetNamespace(),
		UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion(), Generation: obj.GetGeneration(),
		CreationTimestamp: obj.GetCreationTimestamp(), DeletionTimestamp: obj.GetDeletionTimestamp(),
		DeletionGracePeriodSeconds: obj.GetDeletionGracePeriodSeconds(), Labels: obj.GetLabels(),
		Annotations: obj.GetAnnotations(), OwnerReferences: obj.GetOwnerReferences(), Finalizers: obj.GetFinalizers(),
		ManagedFields: obj.GetManagedFields(),
	}}
	partial.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
	return partial
}
