// Package columns builds the tables that kubectl prints, with Kubernetes' columns and cells for
// each kind.
package columns

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
)

// Columns builds tables. It is immutable after New and safe for concurrent use.
type Columns struct {
	now     func() time.Time
	layouts map[schema.GroupVersionKind]layout
	other   layout
}

// layout holds the columns of one kind, and a function that returns the cells in the columns'
// order.
type layout struct {
	columns []metav1.TableColumnDefinition
	cells   func(obj scheme.Object, now time.Time) []any
	// order sorts the rows; nil keeps the list's order.
	order func(a, b scheme.Object) int
}

// New returns the columns of all kinds; ages are measured by the machine's clock.
func New() *Columns {
	return &Columns{now: time.Now, layouts: layouts(), other: plain()}
}

// Table returns the table of objs, which are of kind gvk. Kinds without columns of their own get
// name and creation time. meta is the list's, nil for a single object. opts says whether to omit
// the column definitions and how much of each object to include; nil means defaults.
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

// included returns the part of an object that is sent with its row: its metadata unless the client
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

// Partial returns the metadata of an object as a PartialObjectMetadata. It shares obj's maps.
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
