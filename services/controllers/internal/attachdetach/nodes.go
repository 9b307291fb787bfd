package attachdetach

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// writeNode lists the volumes that are attached to a node in its status. Others that the list has stay.
func (r *reconciler) writeNode(ctx context.Context, name string) error {
	r.mu.Lock()
	list := slices.Sorted(maps.Keys(r.state.node(name).report))
	r.mu.Unlock()
	node, found := r.nodes.Indexer().GetByKey(name)
	if found {
		if err := r.setAttached(ctx, node, list); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.state.node(name)
	n.written = map[corev1.UniqueVolumeName]bool{}
	if found {
		for _, volume := range list {
			n.written[volume] = true
		}
	}
	for volume := range n.on {
		if !n.report[volume] { // It waits for this.
			r.state.q.AddKey(volumeKey(volume))
		}
	}
	if !found {
		r.state.tidy(name)
	}
	return nil
}

// setAttached writes a node's list of volumes if it differs.
func (r *reconciler) setAttached(ctx context.Context, node *corev1.Node, list []corev1.UniqueVolumeName) error {
	var want []corev1.AttachedVolume
	for _, has := range node.Status.VolumesAttached {
		if _, _, ours := split(has.Name); !ours || slices.Contains(list, has.Name) {
			want = append(want, has)
		}
	}
	for _, name := range list {
		if !slices.ContainsFunc(want, func(has corev1.AttachedVolume) bool { return has.Name == name }) {
			want = append(want, corev1.AttachedVolume{Name: name})
		}
	}
	if slices.Equal(want, node.Status.VolumesAttached) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"volumesAttached": want}})
	if err != nil {
		return fmt.Errorf("encoding the volumes attached to node %s: %w", node.Name, err)
	}
	_, err = r.nodes.Client.Patch(ctx, "", node.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the volumes attached to node %s: %w", node.Name, err)
	}
	return nil
}
