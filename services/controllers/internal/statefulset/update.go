package statefulset

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/controllers/internal/podstate"
)

// update is one reconcile of a set's pods.
type update struct {
	*reconciler
	set   *appsv1.StatefulSet
	known *revisions
	now   time.Time
	// ordered means one pod after the other.
	ordered bool
	// ordinals are those of the existing pods that the set asks for, ascending. Which are missing follows:
	// there may be billions of them.
	ordinals []int
	// condemned are the pods that the set does not ask for, by descending ordinal.
	condemned []*corev1.Pod
	// replaced counts the pods of the current revision that were deleted for the new one.
	replaced int32

	mu   sync.Mutex
	pods map[int]*corev1.Pod // by ordinal, without condemned
}

func (r *reconciler) newUpdate(set *appsv1.StatefulSet, known *revisions, pods []*corev1.Pod, now time.Time) *update {
	u := &update{
		reconciler: r, set: set, known: known, now: now, pods: map[int]*corev1.Pod{},
		ordered: set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement,
	}
	for _, pod := range pods {
		ordinal, ok := ordinalOf(set, pod)
		switch {
		case ok && inRange(set, ordinal):
			u.pods[ordinal] = pod
			u.ordinals = append(u.ordinals, ordinal)
		case ok:
			u.condemned = append(u.condemned, pod)
		}
	}
	slices.Sort(u.ordinals)
	slices.SortFunc(u.condemned, func(a, b *corev1.Pod) int { return u.ordinal(b) - u.ordinal(a) })
	return u
}

func (u *update) ordinal(pod *corev1.Pod) int {
	ordinal, _ := ordinalOf(u.set, pod)
	return ordinal
}

// all returns all pods that exist, those included that were created.
func (u *update) all() []*corev1.Pod {
	all := slices.Clone(u.condemned)
	for _, pod := range u.pods {
		all = append(all, pod)
	}
	return all
}

// run makes the pods that are missing, ends those that are too many, and replaces those of another
// revision, in this order. An ordered set goes on only when what it did has taken effect.
func (u *update) run(ctx context.Context) error {
	stop, err := u.replicas(ctx)
	if stop || err != nil {
		return err
	}
	err = each(u.ordered, len(u.condemned), func(i int) error {
		return u.retain(ctx, u.set, u.condemned[i], u.ordinal(u.condemned[i]))
	})
	if err != nil {
		return err
	}
	if stop, err = u.scaleDown(ctx); stop || err != nil {
		return err
	}
	if u.set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return nil
	}
	return u.rollOut(ctx)
}

// replicas sees to the pods that the set asks for.
func (u *update) replicas(ctx context.Context) (stop bool, err error) {
	if u.ordered {
		for ordinal := start(u.set); ordinal < end(u.set); ordinal++ {
			if stop, err := u.replica(ctx, ordinal); stop || err != nil {
				return true, err
			}
		}
		return false, nil
	}
	var busy []int
	for _, ordinal := range u.ordinals {
		if !u.settled(u.pods[ordinal], ordinal) {
			busy = append(busy, ordinal)
		}
	}
	missing := 0
	for ordinal := start(u.set); ordinal < end(u.set) && missing < burst; ordinal++ {
		if u.pods[ordinal] == nil {
			busy = append(busy, ordinal)
			missing++
		}
	}
	return false, each(false, len(busy), func(i int) error {
		_, err := u.replica(ctx, busy[i])
		return err
	})
}

// settled reports whether there is nothing to do for a pod.
func (u *update) settled(pod *corev1.Pod, ordinal int) bool {
	return !podstate.Ended(pod) && pod.Status.Phase != corev1.PodPending && u.conforms(pod, ordinal)
}

func (u *update) conforms(pod *corev1.Pod, ordinal int) bool {
	return identified(pod) && mounted(u.set, pod, ordinal) && u.claimsKept(u.set, pod, ordinal)
}

// replica sees to the pod with an ordinal. It reports whether an ordered set must wait.
func (u *update) replica(ctx context.Context, ordinal int) (stop bool, err error) {
	u.mu.Lock()
	pod := u.pods[ordinal]
	u.mu.Unlock()
	switch {
	case pod == nil:
		return u.create(ctx, ordinal)
	case podstate.Ended(pod):
		// Also one that succeeded: the exit code of a container that was stopped from outside says nothing.
		if pod.DeletionTimestamp == nil {
			err = u.deletePod(ctx, u.set, pod)
		}
		return true, err
	case pod.Status.Phase == corev1.PodPending:
		if err := u.createClaims(ctx, u.set, pod, ordinal); err != nil {
			return true, err
		}
		if err := u.retain(ctx, u.set, pod, ordinal); err != nil {
			return true, err
		}
	}
	if u.ordered && (pod.DeletionTimestamp != nil || !runningAndReady(pod) || !u.available(pod)) {
		return true, nil
	}
	if u.conforms(pod, ordinal) {
		return false, nil
	}
	return false, u.conform(ctx, u.set, pod, ordinal)
}

func (u *update) create(ctx context.Context, ordinal int) (stop bool, err error) {
	if u.claimStale(u.set, ordinal) {
		return true, nil // The claims of the earlier pod with this name have to go first.
	}
	template, revision := u.templateOf(ordinal)
	pod, err := u.createPod(ctx, u.set, template, revision, ordinal)
	if err != nil {
		return true, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.pods[ordinal] = pod
	return true, nil
}

// templateOf returns what to make the pod with an ordinal from. Below the partition, and in a rollout
// without one for as many pods as are still of the current revision, that is the current revision.
func (u *update) templateOf(ordinal int) (*corev1.PodTemplateSpec, string) {
	strategy, index := u.set.Spec.UpdateStrategy, ordinal-start(u.set)
	current := strategy.Type == appsv1.RollingUpdateStatefulSetStrategyType && index < int(u.set.Status.CurrentReplicas)
	if strategy.RollingUpdate != nil {
		current = index < partition(u.set)
	}
	if current {
		return u.known.template, u.known.current.Name
	}
	return &u.set.Spec.Template, u.known.update.Name
}

func (u *update) available(pod *corev1.Pod) bool {
	available, _ := podstate.Available(pod, minReady(u.set), u.now)
	return available
}

func (u *update) unavailable(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || !u.available(pod)
}

// scaleDown ends the pods that the set does not ask for. An ordered set ends one after the other, the
// highest ordinal first, and while one is not available only that one.
func (u *update) scaleDown(ctx context.Context) (stop bool, err error) {
	if !u.ordered {
		living := slices.DeleteFunc(slices.Clone(u.condemned), func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
		return false, each(false, len(living), func(i int) error { return u.deletePod(ctx, u.set, living[i]) })
	}
	if len(u.condemned) == 0 {
		return false, nil
	}
	target := u.condemned[0]
	if target.DeletionTimestamp != nil {
		return true, nil
	}
	if !runningAndReady(target) || !u.available(target) {
		for _, pod := range slices.Backward(u.condemned) {
			if u.unavailable(pod) {
				if pod != target {
					return true, nil
				}
				break
			}
		}
	}
	return true, u.deletePod(ctx, u.set, target)
}

// each calls f for 0 to n-1: in order and up to the first error, or else in concurrent batches of which
// each is twice as large as the one before, up to the first with an error.
func each(ordered bool, n int, f func(i int) error) error {
	if ordered {
		for i := range n {
			if err := f(i); err != nil {
				return err
			}
		}
		return nil
	}
	for done, size := 0, min(n, 1); size > 0; size = min(2*size, n-done, burst) {
		faults := make([]error, size)
		var batch sync.WaitGroup
		for i := range size {
			batch.Go(func() { faults[i] = f(done + i) })
		}
		batch.Wait()
		failed := slices.DeleteFunc(faults, func(err error) bool { return err == nil })
		if len(failed) > 0 {
			return fmt.Errorf("%d of %d writes failed, the first: %w", len(failed), size, failed[0])
		}
		done += size
	}
	return nil
}
