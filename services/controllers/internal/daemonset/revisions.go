package daemonset

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/services/controllers/internal/controllerref"
	"github.com/garboard/garboard/services/controllers/internal/history"
	"github.com/garboard/garboard/services/controllers/internal/podtemplate"
)

// revise returns the revision of a DaemonSet's template, which it creates or renumbers as needed, and those
// of other templates, sorted. It returns no current one if it has moved pods from one revision to another,
// which the caches have to show first.
func (r *reconciler) revise(ctx context.Context, ds *appsv1.DaemonSet, pods []*corev1.Pod) (
	current *appsv1.ControllerRevision, old []*appsv1.ControllerRevision, err error) {
	found, err := r.revisions.Of(ds)
	if err != nil {
		return nil, nil, err
	}
	claimed, err := r.revisions.Claim(ctx, ds, found)
	if err != nil {
		return nil, nil, err
	}
	patch, err := history.Patch(&ds.Spec.Template)
	if err != nil {
		return nil, nil, err
	}
	history.Sort(claimed)
	var same []*appsv1.ControllerRevision
	number := int64(1)
	for _, revision := range claimed {
		if revision, err = r.label(ctx, revision); err != nil {
			return nil, nil, err
		}
		if bytes.Equal(revision.Data.Raw, patch) {
			same = append(same, revision)
			continue
		}
		old = append(old, revision)
		number = max(number, revision.Revision+1)
	}
	if len(same) == 0 {
		current, err = r.snapshot(ctx, ds, patch, number)
		return current, old, err
	}
	current = same[len(same)-1]
	if len(same) > 1 {
		return nil, nil, r.merge(ctx, current, same[:len(same)-1], pods)
	}
	if current.Revision < number {
		if _, err := history.Renumber(ctx, r.revisions.Client, current, number); err != nil {
			return nil, nil, err
		}
	}
	return current, old, nil
}

// label gives a revision the label by which its pods are found, if it has none.
func (r *reconciler) label(ctx context.Context, revision *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	if _, ok := revision.Labels[hashLabel]; ok {
		return revision, nil
	}
	revision = revision.DeepCopy()
	if revision.Labels == nil {
		revision.Labels = map[string]string{}
	}
	revision.Labels[hashLabel] = revision.Name // A hash could collide.
	updated, err := r.revisions.Client.Update(ctx, revision, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("labelling the ControllerRevision %s/%s: %w", revision.Namespace, revision.Name, err)
	}
	return updated, nil
}

// merge keeps one of several revisions of the same template: it moves their pods to it, and deletes them.
func (r *reconciler) merge(ctx context.Context, kept *appsv1.ControllerRevision, others []*appsv1.ControllerRevision,
	pods []*corev1.Pod) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]string{hashLabel: kept.Labels[hashLabel]}}})
	if err != nil {
		return fmt.Errorf("encoding a patch of labels: %w", err)
	}
	moved := map[string]bool{}
	for _, other := range others {
		moved[other.Labels[hashLabel]] = true
	}
	for _, pod := range pods {
		if hash := pod.Labels[hashLabel]; !moved[hash] || hash == kept.Labels[hashLabel] {
			continue
		}
		_, err := r.pods.Client.Patch(ctx, pod.Namespace, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "")
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("labelling the pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	return history.Truncate(ctx, r.revisions.Client, others, len(others), func(*appsv1.ControllerRevision) bool { return false })
}

// snapshot creates the revision of a DaemonSet's template. If its name belongs to another, it counts a
// collision in the status, so that the next attempt has another name.
func (r *reconciler) snapshot(ctx context.Context, ds *appsv1.DaemonSet, patch []byte, number int64) (*appsv1.ControllerRevision, error) {
	hash := podtemplate.Hash(&ds.Spec.Template, ds.Status.CollisionCount)
	revision := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ds.Namespace, Name: ds.Name + "-" + hash, Labels: maps.Clone(ds.Spec.Template.Labels), Annotations: ds.Annotations,
			OwnerReferences: []metav1.OwnerReference{controllerref.Reference(ds, r.sets.Client.Kind().GroupVersionKind)},
		},
		Data: runtime.RawExtension{Raw: patch}, Revision: number,
	}
	if revision.Labels == nil {
		revision.Labels = map[string]string{}
	}
	revision.Labels[hashLabel] = hash
	created, err := r.revisions.Client.Create(ctx, revision, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return created, err
	}
	existing, lost := r.revisions.Client.Get(ctx, ds.Namespace, revision.Name, metav1.GetOptions{})
	if lost != nil {
		return nil, lost
	}
	if history.Equal(existing, revision) {
		return existing, nil
	}
	// The count of the cache may be old, and a collision must not be counted twice.
	fresh, lost := r.sets.Client.Get(ctx, ds.Namespace, ds.Name, metav1.GetOptions{})
	if lost != nil {
		return nil, lost
	}
	if !equality.Semantic.DeepEqual(fresh.Status.CollisionCount, ds.Status.CollisionCount) {
		return nil, fmt.Errorf("the collision count of DaemonSet %s/%s is not known yet: %w", ds.Namespace, ds.Name, err)
	}
	if fresh.Status.CollisionCount == nil {
		fresh.Status.CollisionCount = new(int32)
	}
	*fresh.Status.CollisionCount++
	if _, lost := r.sets.Client.UpdateStatus(ctx, fresh, metav1.UpdateOptions{}); lost != nil {
		return nil, lost
	}
	return nil, err
}

// truncate deletes the oldest revisions beyond the limit, except those of pods.
func (r *reconciler) truncate(ctx context.Context, ds *appsv1.DaemonSet, pods []*corev1.Pod, old []*appsv1.ControllerRevision) error {
	limit := ds.Spec.RevisionHistoryLimit
	if limit == nil || len(old) <= int(*limit) {
		return nil
	}
	live := map[string]bool{}
	for _, pod := range pods {
		if hash := pod.Labels[hashLabel]; hash != "" {
			live[hash] = true
		}
	}
	err := history.Truncate(ctx, r.revisions.Client, old, len(old)-int(*limit), func(revision *appsv1.ControllerRevision) bool {
		return live[revision.Labels[hashLabel]]
	})
	if err != nil {
		return fmt.Errorf("failed to clean up revisions of DaemonSet: %w", err)
	}
	return nil
}
