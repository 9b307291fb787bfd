package daemonset

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/podstate"
)

// plan is what a reconcile does: the nodes that get a pod, and the pods that go.
type plan struct {
	create []string
	remove []*corev1.Pod
}

func (p plan) empty() bool { return len(p.create)+len(p.remove) == 0 }

// place decides which nodes lack a pod, and which pods are on a node that should not have them or are too
// many there.
func (r *reconciler) place(s *state) plan {
	var t plan
	known := map[string]bool{}
	for _, node := range s.nodes {
		known[node.Name] = true
		run, stay := s.want.decide(node)
		pods := s.onNode[node.Name]
		switch {
		case run && len(pods) == 0:
			t.create = append(t.create, node.Name)
		case stay:
			running := r.clean(s, node.Name, pods, &t)
			if s.surges() {
				s.pair(node.Name, running, run, &t)
			} else if len(running) > 1 {
				t.remove = append(t.remove, running[1:]...)
			}
		default:
			t.remove = append(t.remove, living(pods)...)
		}
	}
	// A pod for a node that is gone is never scheduled, and so nobody else deletes it.
	for _, node := range s.names() {
		for _, pod := range s.onNode[node] {
			if !known[node] && pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil {
				t.remove = append(t.remove, pod)
			}
		}
	}
	return t
}

func living(pods []*corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
}

// clean deletes the pods of a node that have ended, and returns the ones that live.
func (r *reconciler) clean(s *state, node string, pods []*corev1.Pod, t *plan) []*corev1.Pod {
	var running []*corev1.Pod
	for _, pod := range living(pods) {
		switch pod.Status.Phase {
		case corev1.PodFailed:
			// A node that refuses the pod would refuse the next one as well, and at once.
			key := failure{s.ds.UID, s.ds.Status.ObservedGeneration, node}
			if delay := r.failures.delay(key, s.now); delay > 0 {
				s.again(delay)
				continue
			}
			r.events.Event(s.ds, corev1.EventTypeWarning, "FailedDaemonPod", "Found failed daemon pod %s/%s on node %s, will try to kill it", pod.Namespace, pod.Name, node)
			t.remove = append(t.remove, pod)
		case corev1.PodSucceeded:
			r.events.Event(s.ds, corev1.EventTypeNormal, "SucceededDaemonPod", "Found succeeded daemon pod %s/%s on node %s, will try to delete it", pod.Namespace, pod.Name, node)
			t.remove = append(t.remove, pod)
		default:
			running = append(running, pod)
		}
	}
	return running
}

// pair keeps at most one old and one new pod on a node. Both stay while the old one is ready and the new
// one is not yet available.
func (s *state) pair(node string, running []*corev1.Pod, run bool, t *plan) {
	if len(running) == 0 && run {
		t.create = append(t.create, node)
	}
	if len(running) <= 1 {
		return
	}
	var newest, oldest *corev1.Pod
	for _, pod := range running {
		switch isNew := pod.Labels[hashLabel] == s.hash; {
		case isNew && newest == nil:
			newest = pod
		case !isNew && oldest == nil:
			oldest = pod
		default:
			t.remove = append(t.remove, pod)
		}
	}
	if newest != nil && oldest != nil && (!podstate.Ready(oldest) || s.available(newest)) {
		t.remove = append(t.remove, oldest)
	}
}

const (
	firstDelay   = time.Second
	longestDelay = 15 * time.Minute
)

// failure names the pods of a DaemonSet that failed on a node.
type failure struct {
	ds         types.UID
	generation int64
	node       string
}

type failed struct {
	last  time.Time
	delay time.Duration
}

// failures say how long failed pods stay before they are replaced: a second at first, twice as long each
// time, up to 15 minutes. The zero value knows none.
type failures struct {
	mu    sync.Mutex
	known map[failure]failed
	sweep int // how many are known when those that are over are removed
}

func (f *failures) clear(controller.Queue) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known, f.sweep = nil, 0
}

// delay returns how long a failed pod has to wait; 0 if it can be replaced now, which counts as a failure.
func (f *failures) delay(key failure, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known == nil {
		f.known = map[failure]failed{}
	}
	entry, found := f.known[key]
	since := now.Sub(entry.last)
	switch {
	case !found || since > 2*longestDelay:
		entry = failed{delay: firstDelay}
	case since < entry.delay:
		return entry.delay - since
	default:
		entry.delay = min(2*entry.delay, longestDelay)
	}
	entry.last = now
	f.known[key] = entry
	if len(f.known) > max(f.sweep, 1024) {
		for key, entry := range f.known {
			if now.Sub(entry.last) > 2*longestDelay {
				delete(f.known, key)
			}
		}
		f.sweep = 2 * len(f.known)
	}
	return 0
}
