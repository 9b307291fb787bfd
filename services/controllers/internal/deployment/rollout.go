package deployment

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/contention"
	"github.com/garboard/garboard/services/controllers/internal/controllerref"
)

// rollout is one step of a Deployment's rollout. It works on its own copies: d and sets.
type rollout struct {
	*reconciler
	d    *appsv1.Deployment
	sets []*appsv1.ReplicaSet

	newest *appsv1.ReplicaSet   // has the present template; nil while there is none
	old    []*appsv1.ReplicaSet // all others, oldest first
}

// all returns every ReplicaSet, the newest included.
func (r *rollout) all() []*appsv1.ReplicaSet {
	all := slices.Clone(r.old)
	if r.newest != nil {
		all = append(all, r.newest)
	}
	return all
}

// step brings the Deployment one step nearer to its desired state. The writes of a step come back
// as events, which trigger the next one.
func (r *rollout) step(ctx context.Context) (reconcile.Result, error) {
	if r.d.DeletionTimestamp != nil {
		if err := r.sync(ctx, false); err != nil {
			return reconcile.Result{}, err
		}
		return reconcile.Result{}, r.writeCounts(ctx)
	}
	if err := r.notePause(ctx); err != nil {
		return reconcile.Result{}, err
	}
	if err := r.sync(ctx, false); err != nil {
		return reconcile.Result{}, err
	}
	if r.d.Spec.Paused || r.resized() {
		return reconcile.Result{}, r.rescale(ctx)
	}
	switch r.d.Spec.Strategy.Type {
	case appsv1.RecreateDeploymentStrategyType:
		return r.recreate(ctx)
	case appsv1.RollingUpdateDeploymentStrategyType:
		return r.rollingUpdate(ctx)
	default:
		return reconcile.Result{}, reconcile.TerminalError(fmt.Errorf(
			"unexpected deployment strategy type: %s", r.d.Spec.Strategy.Type))
	}
}

// sync finds the newest ReplicaSet and brings its annotations and revision up to date. If there is
// none, it creates one if create is set.
func (r *rollout) sync(ctx context.Context, create bool) error {
	r.newest, r.old = split(r.d, r.sets)
	// The newest revision is one above every other: a template that comes back by a rollback takes
	// a new revision.
	revision := maxRevision(r.old) + 1
	switch {
	case r.newest != nil:
		return r.refresh(ctx, revision)
	case create:
		return r.create(ctx, revision)
	}
	return nil
}

// refresh updates the newest ReplicaSet, which must exist, and then the Deployment.
func (r *rollout) refresh(ctx context.Context, revision int64) error {
	changed := annotate(r.d, r.newest, revision, true)
	if r.newest.Spec.MinReadySeconds != r.d.Spec.MinReadySeconds {
		r.newest.Spec.MinReadySeconds, changed = r.d.Spec.MinReadySeconds, true
	}
	if changed {
		updated, err := r.replicaSets.Client.Update(ctx, r.newest, metav1.UpdateOptions{})
		if err != nil {
			return fmt.Errorf("updating ReplicaSet %s: %w", r.newest.Name, err)
		}
		r.replace(updated)
	}
	changed = setAnnotation(r.d, revisionAnnotation, r.newest.Annotations[revisionAnnotation])
	if _, limited := deadline(r.d); limited && findCondition(&r.d.Status, appsv1.DeploymentProgressing) == nil {
		setCondition(&r.d.Status, newCondition(appsv1.DeploymentProgressing, corev1.ConditionTrue,
			reasonFound, fmt.Sprintf("Found new replica set %q", r.newest.Name)))
		changed = true
	}
	if !changed {
		return nil
	}
	return r.writeStatus(ctx)
}

// create creates the ReplicaSet of the present template, at its first size.
func (r *rollout) create(ctx context.Context, revision int64) error {
	rs := newReplicaSet(r.d, controllerref.Reference(r.d, r.deployments.Client.Kind().GroupVersionKind))
	count := newSize(r.d, append(slices.Clone(r.old), rs), rs)
	rs.Spec.Replicas = &count
	annotate(r.d, rs, revision, false)

	created, err := r.replicaSets.Client.Create(ctx, rs, metav1.CreateOptions{})
	existed := false
	switch {
	case err == nil:
	case apierrors.IsAlreadyExists(err):
		if created, err = r.resolve(ctx, rs, err); err != nil {
			return err
		}
		existed = true
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return reconcile.TerminalError(err)
	default:
		return r.noteCreateError(ctx, rs, err)
	}
	if !existed && count > 0 {
		r.events.Event(r.d, corev1.EventTypeNormal, "ScalingReplicaSet", "Scaled up replica set %s from 0 to %d", created.Name, count)
	}
	r.newest = created
	r.sets = append(r.sets, created)

	changed := setAnnotation(r.d, revisionAnnotation, created.Annotations[revisionAnnotation])
	if _, limited := deadline(r.d); limited && !existed {
		setCondition(&r.d.Status, newCondition(appsv1.DeploymentProgressing, corev1.ConditionTrue,
			reasonCreated, fmt.Sprintf("Created new replica set %q", created.Name)))
		changed = true
	}
	if !changed {
		return nil
	}
	return r.writeStatus(ctx)
}

// resolve decides what a taken name means. It is either this Deployment's own ReplicaSet, which the
// cache did not show yet, or another template with the same hash. In the latter case resolve counts
// the collision, which changes the name for the next try.
func (r *rollout) resolve(ctx context.Context, wanted *appsv1.ReplicaSet, taken error) (*appsv1.ReplicaSet, error) {
	found, err := r.replicaSets.Client.Get(ctx, wanted.Namespace, wanted.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the ReplicaSet that has taken the name %s: %w", wanted.Name, err)
	}
	if metav1.IsControlledBy(found, r.d) && sameTemplate(&found.Spec.Template, &r.d.Spec.Template) {
		return found, nil
	}
	collisions := int32(1)
	if r.d.Status.CollisionCount != nil {
		collisions += *r.d.Status.CollisionCount
	}
	r.d.Status.CollisionCount = &collisions
	if err := r.writeStatus(ctx); err != nil {
		return nil, err
	}
	r.logger.Info("template hash collision: retrying with another ReplicaSet name",
		"namespace", r.d.Namespace, "name", r.d.Name, "replicaset", wanted.Name, "collisions", collisions)
	return nil, fmt.Errorf("creating ReplicaSet %s: %w", wanted.Name, taken)
}

func (r *rollout) noteCreateError(ctx context.Context, rs *appsv1.ReplicaSet, cause error) error {
	if contention.IsSlowed(cause) {
		return cause
	}
	message := fmt.Sprintf("Failed to create new replica set %q: %v", rs.Name, cause)
	r.events.Event(r.d, corev1.EventTypeWarning, reasonCreateError, "%s", message)
	if _, limited := deadline(r.d); limited {
		setCondition(&r.d.Status, newCondition(appsv1.DeploymentProgressing, corev1.ConditionFalse, reasonCreateError, message))
		if err := r.writeStatus(ctx); err != nil {
			return fmt.Errorf("creating ReplicaSet %s: %w; and recording that: %w", rs.Name, cause, err)
		}
	}
	return fmt.Errorf("creating ReplicaSet %s: %w", rs.Name, cause)
}

// notePause keeps the progress deadline from running while a Deployment is paused.
func (r *rollout) notePause(ctx context.Context) error {
	if _, limited := deadline(r.d); !limited {
		return nil
	}
	current := findCondition(&r.d.Status, appsv1.DeploymentProgressing)
	if current != nil && current.Reason == reasonTimedOut {
		return nil // The timeout says more than that the Deployment is paused.
	}
	noted := current != nil && current.Reason == reasonPaused
	switch {
	case r.d.Spec.Paused && !noted:
		setCondition(&r.d.Status, newCondition(appsv1.DeploymentProgressing, corev1.ConditionUnknown, reasonPaused, "Deployment is paused"))
	case !r.d.Spec.Paused && noted:
		setCondition(&r.d.Status, newCondition(appsv1.DeploymentProgressing, corev1.ConditionUnknown, reasonResumed, "Deployment is resumed"))
	default:
		return nil
	}
	return r.writeStatus(ctx)
}

// finish cleans up after a completed rollout and writes its progress.
func (r *rollout) finish(ctx context.Context) (reconcile.Result, error) {
	if complete(r.d, &r.d.Status) {
		if err := r.cleanup(ctx); err != nil {
			return reconcile.Result{}, err
		}
	}
	return r.writeProgress(ctx)
}

// writeProgress writes the counts and conditions of a rollout. If nothing has changed, it requeues
// the Deployment for its progress deadline.
func (r *rollout) writeProgress(ctx context.Context) (reconcile.Result, error) {
	now := time.Now()
	status := newStatus(r.d, r.newest, r.all())
	setProgress(r.d, r.newest, &status, now)
	setFailure(r.newest, r.old, &status)
	if !equality.Semantic.DeepEqual(r.d.Status, status) {
		r.d.Status = status
		return reconcile.Result{}, r.writeStatus(ctx)
	}
	limit, limited := deadline(r.d)
	condition := findCondition(&status, appsv1.DeploymentProgressing)
	if !limited || condition == nil || complete(r.d, &status) || condition.Reason == reasonTimedOut {
		return reconcile.Result{}, nil
	}
	// Times in the API have whole seconds: one more second makes sure that the deadline is past.
	left := condition.LastUpdateTime.Add(limit).Sub(now)
	return reconcile.Result{RequeueAfter: max(left, 0) + time.Second}, nil
}

// writeCounts writes the counts without touching the condition Progressing.
func (r *rollout) writeCounts(ctx context.Context) error {
	status := newStatus(r.d, r.newest, r.all())
	if equality.Semantic.DeepEqual(r.d.Status, status) {
		return nil
	}
	r.d.Status = status
	return r.writeStatus(ctx)
}

// writeStatus writes the status of the Deployment, and its annotations with it.
func (r *rollout) writeStatus(ctx context.Context) error {
	updated, err := r.deployments.Client.UpdateStatus(ctx, r.d, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("writing the status of Deployment %s/%s: %w", r.d.Namespace, r.d.Name, err)
	}
	r.d = updated
	return nil
}

// cleanup deletes the oldest ReplicaSets beyond the history limit, except those that have pods or
// may get some.
func (r *rollout) cleanup(ctx context.Context) error {
	limit, limited := historyLimit(r.d)
	if !limited {
		return nil
	}
	var alive []*appsv1.ReplicaSet
	for _, rs := range r.old {
		if rs.DeletionTimestamp == nil {
			alive = append(alive, rs)
		}
	}
	if len(alive) <= limit {
		return nil
	}
	slices.SortStableFunc(alive, func(a, b *appsv1.ReplicaSet) int {
		switch ra, rb := revisionOf(a), revisionOf(b); {
		case ra == rb:
			return byCreation(a, b)
		case ra < rb:
			return -1
		default:
			return 1
		}
	})
	for _, rs := range alive[:len(alive)-limit] {
		if rs.Status.Replicas != 0 || size(rs) != 0 || rs.Generation > rs.Status.ObservedGeneration {
			continue
		}
		err := r.replicaSets.Client.Delete(ctx, rs.Namespace, rs.Name, metav1.DeleteOptions{
			Preconditions: metav1.NewUIDPreconditions(string(rs.UID)),
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting old ReplicaSet %s: %w", rs.Name, err)
		}
	}
	return nil
}
