package garbage

import (
	"context"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// collectKnown deletes an object of whose owners the API had none, without reading them or the object again:
// the deletion holds only for the revision that the graph has. It reports whether that was all there is to do.
// Of an owner's thousand dependents all but the first few are deleted in this way.
func (c *Collector) collectKnown(ctx context.Context, item node) (done bool, err error) {
	if len(item.owners) == 0 || item.revision == 0 {
		return false, nil
	}
	for _, ref := range item.owners {
		kind := c.kind(kindOf(ref))
		if kind == nil || kind.Namespaced && item.namespace == "" || !c.graph.isAbsent(ownerOf(item, kind, ref)) ||
			c.graph.elsewhere(ref, item.namespace) {
			return false, nil
		}
	}
	err = c.delete(ctx, item.identity, strconv.FormatInt(item.revision, 10), propagation(item.orphan, item.foreground))
	if apierrors.IsConflict(err) {
		return false, nil // It has changed since, perhaps its owners as well.
	}
	return err == nil, err
}

// propagation returns what happens to the dependents of an object that is deleted for the lack of owners: what its
// finalizers ask for.
func propagation(orphan, foreground bool) metav1.DeletionPropagation {
	switch {
	case orphan:
		return metav1.DeletePropagationOrphan
	case foreground:
		return metav1.DeletePropagationForeground
	}
	return metav1.DeletePropagationBackground
}
