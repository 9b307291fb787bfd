package controller

import (
	"fmt"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
)

// Index returns a watch that adds an index to an informer, unless it has one of that name. Controllers that
// share a name must mean the same index.
func Index[T scheme.Object](of informer.SharedInformer[T], name string, values informer.IndexFunc[T]) Watch {
	return index[T]{of, name, values}
}

type index[T scheme.Object] struct {
	informer informer.SharedInformer[T]
	name     string
	values   informer.IndexFunc[T]
}

func (i index[T]) begin(*handlers, Queue) error { return addIndex(i.informer, i.name, i.values) }

// addIndex adds an index to an informer that lacks it.
func addIndex[T scheme.Object](of informer.SharedInformer[T], name string, values informer.IndexFunc[T]) error {
	has := func() bool {
		_, ok := of.Indexer().GetIndexers()[name]
		return ok
	}
	if has() {
		return nil
	}
	// Another controller may be faster.
	if err := of.AddIndexers(informer.Indexers[T]{name: values}); err != nil && !has() {
		return fmt.Errorf("adding the index %q: %w", name, err)
	}
	return nil
}
