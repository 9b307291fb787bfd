package kinds

import (
	"fmt"

	"github.com/garboard/garboard/libs/scheme"
)

// Pruning is how a Definition prunes an object.
type Pruning struct {
	// Report asks for the paths of what is removed.
	Report bool
	// KeepNulls keeps what is null where the kind allows no null; validation refuses it.
	KeepNulls bool
}

// Complete completes an object that rules of users have changed, if its kind has a definition: it removes
// fields that the kind does not have, and sets those that a client may omit. What is null stays, as in Kubernetes.
func (c *Catalog) Complete(obj scheme.Object) {
	definition := c.Of(c.table.KindOf(obj))
	if definition == nil {
		return
	}
	if definition.Prune != nil {
		_, _ = definition.Prune(obj, Pruning{KeepNulls: true}) // Validation reports what cannot be read.
	}
	if definition.Default != nil {
		definition.Default(obj)
	}
}

// Convert returns obj as another kind that is stored as the same one. It leaves obj as it is. It is an
// error if the kinds are not stored as one, or if one of them is not served.
func (c *Catalog) Convert(obj scheme.Object, to *scheme.Kind) (scheme.Object, error) {
	from, target := c.Of(c.table.KindOf(obj)), c.Of(to)
	if from == nil || target == nil || from.Storage != target.Storage {
		return nil, fmt.Errorf("converting a %v to %v: these are not stored as the same kind",
			obj.GetObjectKind().GroupVersionKind(), to.GroupVersionKind)
	}
	converted, ok := obj.DeepCopyObject().(scheme.Object)
	if !ok {
		return nil, fmt.Errorf("converting a %T: its copy has no metadata", obj)
	}
	converted, err := from.ToStored.One(converted)
	if err != nil {
		return nil, err
	}
	if converted, err = target.FromStored.One(converted); err != nil {
		return nil, err
	}
	converted.GetObjectKind().SetGroupVersionKind(to.GroupVersionKind)
	return converted, nil
}
