package storage

import (
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// CSINode defines the kind CSINode.
func CSINode() *kinds.Definition {
	return kinds.Of[*storagev1.CSINode]{
		Columns:  csiNodeColumns(),
		Level:    kinds.Full,
		Create:   func(n *storagev1.CSINode) { n.Status = storagev1.CSINodeStatus{} },
		Validate: validateNode,
		Update: kinds.ChangeOf[*storagev1.CSINode]{
			Prepare:  func(n, old *storagev1.CSINode) { n.Status = *old.Status.DeepCopy() },
			Validate: validateNodeUpdate,
		},
		ConditionalUpdate: true,
		ReturnDeleted:     true,
	}.Definition()
}

func csiNodeColumns() *columns.Layout {
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(), columns.Number("Drivers", "Drivers indicates the number of CSI drivers registered on the node"), columns.Age(),
	}, func(n *storagev1.CSINode, now time.Time) []any {
		return []any{n.Name, int64(len(n.Spec.Drivers)), columns.AgeOf(n, now)}
	})
}
