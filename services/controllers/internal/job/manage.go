package job

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/services/controllers/internal/podcontrol"
	"github.com/garboard/garboard/services/controllers/internal/podstate"
)

// manage creates the missing pods or deletes the surplus ones, never both, and returns how many are
// active then.
func (p *pass) manage(ctx context.Context) (active int, err error) {
	active, p.action = len(p.active), tracking
	if suspended(p.job) {
		p.action = podsDeleted
		deleted, err := p.deletePods(ctx, p.active, true)
		return active - deleted, err
	}
	want := p.want()
	if doomed := p.surplus(max(active-want, 0)); len(doomed) > 0 {
		p.action = podsDeleted
		deleted, err := p.deletePods(ctx, doomed[:min(len(doomed), burst)], true)
		return active - deleted, err
	}
	missing := want - active
	if replacesFailedOnly(p.job) {
		missing -= int(p.terminating)
	}
	if missing <= 0 {
		return active, nil
	}
	p.action = podsCreated
	created, err := p.create(ctx, min(missing, burst))
	return active + created, err
}

// want returns how many pods should be active.
func (p *pass) want() int {
	if p.job.Spec.Completions == nil {
		if p.succeeded > 0 {
			return len(p.active) // One success is enough; the others may go on.
		}
		return parallelism(p.job)
	}
	return max(min(completions(p.job)-p.succeeded, parallelism(p.job)), 0)
}

// create creates up to count pods, unless they have to wait for the back-off.
func (p *pass) create(ctx context.Context, count int) (created int, err error) {
	if p.job.Spec.BackoffLimitPerIndex == nil {
		if wait := backoff(p.failures.count, p.failures.last, p.now); wait > 0 {
			p.requeue(max(wait, batchPeriod))
			return 0, nil
		}
	}
	template := p.job.Spec.Template.DeepCopy()
	if !slices.Contains(template.Finalizers, batchv1.JobTrackingFinalizer) {
		template.Finalizers = append(template.Finalizers, batchv1.JobTrackingFinalizer)
	}
	var free []int
	if indexed(p.job) {
		var wait time.Duration
		free, wait = p.due(p.pending(count))
		if len(free) == 0 && wait > 0 {
			p.requeue(max(wait, batchPeriod))
		}
		count = len(free)
		addIndexVariables(&template.Spec)
	}
	var attempts atomic.Int64
	created, err = podcontrol.SlowStart(count, func(i int) error {
		attempts.Add(1)
		each, prefix := template, ""
		if free != nil {
			each, prefix = p.forIndex(template, free[i])
		}
		return p.control.Create(ctx, p.job, each, prefix)
	})
	p.madePods(int(attempts.Load()), created)
	return created, err
}

// surplus returns at least count pods to delete: those of an indexed Job that have no index or share
// one, and then those that have come least far.
func (p *pass) surplus(count int) []*corev1.Pod {
	var doomed []*corev1.Pod
	left := slices.Clone(p.active)
	slices.SortStableFunc(left, leastProgress)
	if indexed(p.job) {
		kept := map[int]bool{}
		all := left
		left = nil
		for _, pod := range slices.Backward(all) {
			index := p.index(pod)
			if index == noIndex || kept[index] {
				doomed = append(doomed, pod)
				continue
			}
			kept[index] = true
			left = append(left, pod)
		}
		slices.Reverse(left)
	}
	if more := count - len(doomed); more > 0 {
		doomed = append(doomed, left[:more]...)
	}
	return doomed
}

// leastProgress sorts the pod first that has come less far: without a node, pending, not ready, ready for
// a shorter time, with more restarts, younger (Kubernetes, pkg/controller.ActivePods).
func leastProgress(a, b *corev1.Pod) int {
	phases := map[corev1.PodPhase]int{corev1.PodUnknown: 1, corev1.PodRunning: 2}
	order := cmp.Or(
		ascending(a.Spec.NodeName != "", b.Spec.NodeName != ""),
		cmp.Compare(phases[a.Status.Phase], phases[b.Status.Phase]),
		ascending(podstate.Ready(a), podstate.Ready(b)),
		younger(podstate.ReadySince(a).Time, podstate.ReadySince(b).Time),
	)
	if order != 0 {
		return order
	}
	regularA, besideA := podstate.Restarts(a)
	regularB, besideB := podstate.Restarts(b)
	return cmp.Or(cmp.Compare(regularB, regularA), cmp.Compare(besideB, besideA), younger(a.CreationTimestamp.Time, b.CreationTimestamp.Time))
}

// ascending sorts false before true.
func ascending(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

// younger sorts an unknown time first, then the later one.
func younger(a, b time.Time) int {
	if a.IsZero() || b.IsZero() {
		return ascending(!a.IsZero(), !b.IsZero())
	}
	return b.Compare(a)
}

// deletePods deletes pods and returns how many are deleted. If untrack is set they lose the finalizer
// first, and so are not counted.
func (p *pass) deletePods(ctx context.Context, pods []*corev1.Pod, untrack bool) (deleted int, err error) {
	faults := each(pods, func(pod *corev1.Pod) error {
		if untrack && tracked(pod) {
			if err := p.untrack(ctx, pod); err != nil {
				return fmt.Errorf("removing completion finalizer: %w", err)
			}
		}
		if err := p.control.Delete(ctx, p.job, pod); !apierrors.IsNotFound(err) {
			return err
		}
		return nil
	})
	for i, fault := range faults {
		if fault != nil {
			err = fault
			continue
		}
		deleted++
		p.terminating++
		if podstate.Ready(pods[i]) {
			p.ready--
		}
	}
	return deleted, err
}

// untrack removes the finalizer from a pod. A pod that is gone has none.
func (r *reconciler) untrack(ctx context.Context, pod *corev1.Pod) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "$deleteFromPrimitiveList/finalizers": []string{batchv1.JobTrackingFinalizer},
	}})
	if err != nil {
		return fmt.Errorf("encoding a patch of finalizers: %w", err)
	}
	err = r.pods.Client.PatchUnread(ctx, pod.Namespace, pod.Name, types.StrategicMergePatchType, patch)
	// Invalid means that another pod has taken the name.
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
		return nil
	}
	return err
}

// each calls f with every pod, some of them at a time, and returns the errors in the pods' order.
func each(pods []*corev1.Pod, f func(*corev1.Pod) error) []error {
	faults := make([]error, len(pods))
	places := make(chan struct{}, atOnce)
	var calls sync.WaitGroup
	for i, pod := range pods {
		places <- struct{}{}
		calls.Go(func() {
			defer func() { <-places }()
			faults[i] = f(pod)
		})
	}
	calls.Wait()
	return faults
}
