package statefulset

import (
	"bytes"
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/services/controllers/internal/controllerref"
	"github.com/garboard/garboard/services/controllers/internal/history"
)

// revisions are the templates that a set's pods are made from.
type revisions struct {
	// all are the revisions that the set had before, sorted.
	all []*appsv1.ControllerRevision
	// update is that of the set's template, and current the one before, to which all pods belonged.
	// They are the same if there is no rollout.
	current, update *appsv1.ControllerRevision
	// template is that of current.
	template   *corev1.PodTemplateSpec
	collisions int32
}

// past returns the revisions that the set selects, sorted, after adopting those without a controller.
func (r *reconciler) past(ctx context.Context, set *appsv1.StatefulSet, selector labels.Selector) ([]*appsv1.ControllerRevision, error) {
	found, err := r.revisions.Of(set)
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(revision *appsv1.ControllerRevision) bool {
		return !selector.Matches(labels.Set(revision.Labels))
	})
	claimed, err := r.revisions.Claim(ctx, set, found)
	history.Sort(claimed)
	return claimed, err
}

// revise finds the revisions of a set, and creates or renumbers the one of its template as needed.
func (r *reconciler) revise(ctx context.Context, set *appsv1.StatefulSet, past []*appsv1.ControllerRevision) (*revisions, error) {
	known := &revisions{all: past}
	if set.Status.CollisionCount != nil {
		known.collisions = *set.Status.CollisionCount
	}
	patch, err := history.Patch(&set.Spec.Template)
	if err != nil {
		return nil, err
	}
	if known.update, err = r.updateRevision(ctx, set, known, patch); err != nil {
		return nil, err
	}
	known.current, known.template = known.update, &set.Spec.Template
	i := slices.IndexFunc(past, func(revision *appsv1.ControllerRevision) bool { return revision.Name == set.Status.CurrentRevision })
	if i >= 0 && past[i].Name != known.update.Name {
		known.current = past[i]
		if known.template, err = history.Template(known.current); err != nil {
			return nil, err
		}
	}
	return known, nil
}

func (r *reconciler) updateRevision(ctx context.Context, set *appsv1.StatefulSet, known *revisions,
	patch []byte) (*appsv1.ControllerRevision, error) {
	var last *appsv1.ControllerRevision
	number := int64(1)
	if n := len(known.all); n > 0 {
		last = known.all[n-1]
		number = last.Revision + 1
	}
	for _, revision := range slices.Backward(known.all) {
		if !bytes.Equal(revision.Data.Raw, patch) {
			continue
		}
		if revision == last {
			return last, nil
		}
		return history.Renumber(ctx, r.revisions.Client, revision, number)
	}
	if last != nil && sameTemplate(last, patch) {
		return last, nil
	}
	owner := controllerref.Reference(set, r.sets.Client.Kind().GroupVersionKind)
	proposed := history.Of(set, owner, set.Spec.Template.Labels, patch, number, known.collisions)
	return history.Create(ctx, r.revisions.Client, set.Name, proposed, &known.collisions)
}

// sameTemplate reports whether a revision that another version of Kubernetes encoded holds the template of
// a patch. Otherwise its pods would be replaced for nothing.
func sameTemplate(revision *appsv1.ControllerRevision, patch []byte) bool {
	template, err := history.Template(revision)
	if err != nil {
		return false
	}
	again, err := history.Patch(template)
	return err == nil && bytes.Equal(again, patch)
}

// truncate deletes the oldest revisions beyond the set's limit. Those of pods, and the present ones, do not
// count.
func (r *reconciler) truncate(ctx context.Context, set *appsv1.StatefulSet, known *revisions, pods []*corev1.Pod) error {
	limit := set.Spec.RevisionHistoryLimit
	if limit == nil || *limit < 0 || len(known.all) <= int(*limit) {
		return nil
	}
	live := map[string]bool{known.current.Name: true, known.update.Name: true}
	for _, pod := range pods {
		live[revisionOf(pod)] = true
	}
	surplus := -int(*limit)
	for _, revision := range known.all {
		if !live[revision.Name] {
			surplus++
		}
	}
	return history.Truncate(ctx, r.revisions.Client, known.all, surplus, func(revision *appsv1.ControllerRevision) bool {
		return live[revision.Name]
	})
}
