package job

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/podstate"
)

// firstBackoff and maxBackoff bound the wait for a pod in place of one that failed.
const (
	firstBackoff = 10 * time.Second
	maxBackoff   = 10 * time.Minute
)

// failures are the failed pods of a Job since the last that succeeded.
type failures struct {
	uid   types.UID
	count int
	last  time.Time
}

// history keeps the failures of Jobs by key. A term begins without any.
type history struct {
	mu   sync.Mutex
	jobs map[string]failures
}

func (h *history) clear(controller.Queue) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.jobs = map[string]failures{}
}

// of returns the failures of a Job; none if another has taken its name.
func (h *history) of(key string, uid types.UID) failures {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known, ok := h.jobs[key]; ok && known.uid == uid {
		return known
	}
	return failures{uid: uid}
}

func (h *history) set(key string, f failures) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if f.count == 0 {
		delete(h.jobs, key)
		return
	}
	h.jobs[key] = f
}

func (h *history) forget(key string) { h.set(key, failures{}) }

// with returns the failures after pods have ended that were not counted before.
func (f failures) with(succeeded, failed []*corev1.Pod) failures {
	if len(succeeded) > 0 {
		f.count, f.last = 0, time.Time{}
	}
	var lastSuccess time.Time
	for _, pod := range succeeded {
		lastSuccess = latest(lastSuccess, endOf(pod))
	}
	for _, pod := range failed {
		if end := endOf(pod); len(succeeded) == 0 || end.After(lastSuccess) {
			f.count++
			f.last = latest(f.last, end)
		}
	}
	return f
}

// backoff returns what is left of the wait after a number of failures, the last of which was at a time.
func backoff(count int, last, now time.Time) time.Duration {
	if count == 0 {
		return 0
	}
	wait := firstBackoff
	for i := 1; i < count && wait < maxBackoff; i++ {
		wait = min(2*wait, maxBackoff)
	}
	return max(0, wait-now.Sub(last))
}

// endOf returns when a pod ended: when its last container did; else when it ceased to be ready; else when
// its deletion was asked for; else, as a last resort, when it was created.
func endOf(pod *corev1.Pod) time.Time {
	if end := containersEnd(pod); !end.IsZero() {
		return end
	}
	ready := podstate.Condition(pod, corev1.PodReady)
	if ready != nil && ready.Status == corev1.ConditionFalse && !ready.LastTransitionTime.IsZero() {
		return ready.LastTransitionTime.Time
	}
	if pod.DeletionTimestamp != nil {
		var grace time.Duration
		if pod.DeletionGracePeriodSeconds != nil {
			grace = time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
		}
		return pod.DeletionTimestamp.Add(-grace)
	}
	return pod.CreationTimestamp.Time
}

// containersEnd returns when the last container of a pod ended, or of the init containers that run beside
// them; the zero time if not all have.
func containersEnd(pod *corev1.Pod) time.Time {
	statuses := slices.Clone(pod.Status.ContainerStatuses)
	for i := range pod.Status.InitContainerStatuses {
		status := &pod.Status.InitContainerStatuses[i]
		if slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool {
			return c.Name == status.Name && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		}) {
			statuses = append(statuses, *status)
		}
	}
	var end time.Time
	for i := range statuses {
		terminated := statuses[i].State.Terminated
		if terminated == nil || terminated.FinishedAt.IsZero() {
			return time.Time{}
		}
		end = latest(end, terminated.FinishedAt.Time)
	}
	return end
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
