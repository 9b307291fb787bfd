package garbage

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
)

// breakCycle keeps objects that wait for each other from waiting for ever: an object whose own
// dependents wait too stops blocking its owner's deletion.
func (c *Collector) breakCycle(ctx context.Context, item node, latest scheme.Object, dependents []node) error {
	if !slices.ContainsFunc(dependents, func(d node) bool { return d.waiting() }) {
		return nil
	}
	var changed, all []metav1.OwnerReference
	for _, ref := range latest.GetOwnerReferences() {
		if ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion {
			no := false
			ref.BlockOwnerDeletion = &no
			changed = append(changed, ref)
		}
		all = append(all, ref)
	}
	switch {
	case len(changed) == 0:
		return nil
	case item.kind.Custom:
		return c.setOwners(ctx, item.identity, latest, all)
	}
	return c.patch(ctx, item.identity, types.StrategicMergePatchType, map[string]any{"uid": item.uid, "ownerReferences": changed})
}

// disown removes references to owners from an object.
func (c *Collector) disown(ctx context.Context, id identity, owners ...types.UID) error {
	if len(owners) == 0 {
		return nil
	}
	if id.kind.Custom {
		latest, err := c.read(ctx, id)
		if err != nil || latest == nil {
			return err
		}
		left := slices.DeleteFunc(slices.Clone(latest.GetOwnerReferences()), func(ref metav1.OwnerReference) bool {
			return slices.Contains(owners, ref.UID)
		})
		if len(left) == len(latest.GetOwnerReferences()) {
			return nil
		}
		return c.setOwners(ctx, id, latest, left)
	}
	refs := make([]map[string]any, len(owners))
	for i, uid := range owners {
		refs[i] = map[string]any{"$patch": "delete", "uid": uid}
	}
	return c.patch(ctx, id, types.StrategicMergePatchType, map[string]any{"uid": id.uid, "ownerReferences": refs})
}

// setOwners replaces the owners of an object of a custom kind, for which there are no strategic patches.
func (c *Collector) setOwners(ctx context.Context, id identity, latest scheme.Object, owners []metav1.OwnerReference) error {
	return c.patch(ctx, id, types.MergePatchType, map[string]any{
		"uid": id.uid, "resourceVersion": latest.GetResourceVersion(), "ownerReferences": owners,
	})
}

// patch changes metadata of the object with this UID. A missing object is not an error.
func (c *Collector) patch(ctx context.Context, id identity, patchType types.PatchType, metadata map[string]any) error {
	data, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("encoding a patch of %s %s/%s: %w", id.kind.Kind, id.namespace, id.name, err)
	}
	err = c.deps.Client.Do(ctx, client.Call{
		Verb: "patch", Kind: id.kind, Namespace: id.namespace, Name: id.name,
		PatchType: patchType, Patch: data, Options: &metav1.PatchOptions{},
	}, nil)
	if err != nil && !isGone(err, id) {
		return fmt.Errorf("patching the metadata of %s %s/%s: %w", id.kind.Kind, id.namespace, id.name, err)
	}
	return nil
}

func (c *Collector) removeFinalizer(ctx context.Context, id identity, latest scheme.Object, finalizer string) error {
	left := slices.DeleteFunc(slices.Clone(latest.GetFinalizers()), func(f string) bool { return f == finalizer })
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": id.uid, "resourceVersion": latest.GetResourceVersion(), "finalizers": left,
	}})
	if err != nil {
		return fmt.Errorf("encoding the finalizers of %s %s/%s: %w", id.kind.Kind, id.namespace, id.name, err)
	}
	err = c.deps.Client.Do(ctx, client.Call{
		Verb: "patch", Kind: id.kind, Namespace: id.namespace, Name: id.name,
		PatchType: types.MergePatchType, Patch: data, Options: &metav1.PatchOptions{},
	}, nil)
	if err != nil && !isGone(err, id) {
		return fmt.Errorf("removing the finalizer %s from %s %s/%s: %w", finalizer, id.kind.Kind, id.namespace, id.name, err)
	}
	return nil
}

func (c *Collector) delete(ctx context.Context, id identity, version string, policy metav1.DeletionPropagation) error {
	c.deps.Logger.Debug("deleting an object without owners", "kind", id.kind.Kind, "namespace", id.namespace, "name", id.name, "propagation", policy)
	err := c.deps.Client.Do(ctx, client.Call{
		Verb: "delete", Kind: id.kind, Namespace: id.namespace, Name: id.name,
		Options: &metav1.DeleteOptions{
			PropagationPolicy: &policy,
			// Delete exactly what was seen: a reference added since would be overlooked.
			Preconditions: &metav1.Preconditions{UID: &id.uid, ResourceVersion: &version},
		},
	}, nil)
	if err != nil && !isGone(err, id) {
		return fmt.Errorf("deleting %s %s/%s: %w", id.kind.Kind, id.namespace, id.name, err)
	}
	return nil
}
