// Package columns builds the tables that kubectl prints.
package columns

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/scheme"
)

// Table returns the table of objs at the time now. A nil layout shows name and creation time. meta is
// the list's, nil for a single object. opts says whether to omit the column definitions and how much
// of each object to include; nil means defaults.
func (l *Layout) Table(objs []scheme.Object, meta *metav1.ListMeta, opts *metav1.TableOptions, now time.Time) *metav1.Table {
	if l == nil {
		l = plain()
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
		table.ColumnDefinitions = l.Columns
	}
	if l.Order != nil {
		objs = slices.SortedStableFunc(slices.Values(objs), l.Order)
	}
	for _, obj := range objs {
		row := metav1.TableRow{Cells: l.Cells(obj, now), Object: included(obj, opts.IncludeObject)}
		if l.Conditions != nil {
			row.Conditions = l.Conditions(obj)
		}
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
