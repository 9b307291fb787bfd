package podworkers

import (
	"context"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
)

// Kind is the reason why a pod is synced.
type Kind int

// The kinds of updates.
const (
	// Create is the first sync of a pod.
	Create Kind = iota
	// Update follows a change of the wanted state.
	Update
	// Sync follows a change of the actual state, or the passing of time.
	Sync
)

// String returns the name of the kind for logs.
func (k Kind) String() string {
	switch k {
	case Create:
		return "create"
	case Update:
		return "update"
	case Sync:
		return "sync"
	}
	return "unknown"
}

// Kill requests the termination of a pod that the API did not ask to terminate.
type Kill struct {
	// Grace is the containers' grace period in seconds; the pod's own when nil.
	Grace *int64
	// Phase, Reason and Message are written to the pod's status if Phase is set.
	Phase           corev1.PodPhase
	Reason, Message string
	// Conditions are written to the status along with Phase.
	Conditions []corev1.PodCondition
}

// Outcome is the result of a sync and determines the next one.
type Outcome struct {
	// Terminal reports that the pod has ended by itself and will start nothing any more.
	Terminal bool
	// Kill, if set along with Terminal, terminates the pod though containers may run.
	Kill *Kill
	// RetryAfter requests the next sync after this time, unless something triggers it earlier.
	RetryAfter time.Duration
}

// Syncer performs the steps. For one pod calls come one at a time. A step that returns an error is
// retried after Outcome.RetryAfter, or RetryPeriod. The worker cancels the step's ctx when the pod
// is to be killed meanwhile, or with a shorter grace period than before.
type Syncer interface {
	// Sync moves a living pod closer to its wanted state.
	Sync(ctx context.Context, kind Kind, pod *corev1.Pod, state *podstate.Pod) (Outcome, error)
	// Terminate stops all containers of the pod with grace seconds of grace period; it returns nil
	// only when none is running.
	Terminate(ctx context.Context, pod *corev1.Pod, state *podstate.Pod, grace int64, kill *Kill) error
	// TerminateOrphan stops all containers of a pod that only the runtime knows.
	TerminateOrphan(ctx context.Context, pod *corev1.Pod, state *podstate.Pod) error
	// Terminated cleans up after a pod whose containers have ended.
	Terminated(ctx context.Context, pod *corev1.Pod, state *podstate.Pod) error
}

// Cache holds the runtime's state of pods.
type Cache interface {
	// NewerThan waits until the state of a pod has been read after t and returns it. It fails only
	// when ctx ends.
	NewerThan(ctx context.Context, uid string, t time.Time) (*podstate.Pod, error)
}

// Config configures Workers.
type Config struct {
	Syncer Syncer
	Cache  Cache
	// ResyncPeriod is the interval between syncs when nothing happens; 1 min when 0.
	ResyncPeriod time.Duration
	// RetryPeriod is the delay before a retry after an error; 10 s when 0.
	RetryPeriod time.Duration
	// Unread is called when the runtime cannot read a pod that the API has, so that nothing can be done to it; may be nil.
	Unread func(pod *corev1.Pod, err error)
	Logger *slog.Logger
}

// Workers holds the workers of all pods on the node. Any goroutine may use it.
type Workers struct {
	cfg Config

	mu      sync.Mutex
	workers map[string]*worker
	// starts are workers without a goroutine yet; started notifies Run of them.
	starts  []*worker
	started chan struct{}
}

// New returns Workers; no pod is worked on before Run.
func New(cfg Config) *Workers {
	if cfg.ResyncPeriod == 0 {
		cfg.ResyncPeriod = time.Minute
	}
	if cfg.RetryPeriod == 0 {
		cfg.RetryPeriod = 10 * time.Second
	}
	if cfg.Unread == nil {
		cfg.Unread = func(*corev1.Pod, error) {}
	}
	return &Workers{cfg: cfg, workers: map[string]*worker{}, started: make(chan struct{}, 1)}
}

// Run works on pods until ctx ends and every worker has returned.
func (ws *Workers) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		ws.mu.Lock()
		starts := ws.starts
		ws.starts = nil
		ws.mu.Unlock()
		for _, w := range starts {
			wg.Go(func() { ws.run(ctx, w) })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ws.started:
		}
	}
}

// Update reports that a pod is new, that its wanted state changed, or that it is due for a sync. A
// pod with a deletion timestamp, or in phase Succeeded or Failed, is terminated. An update of a
// finished pod has no effect.
func (ws *Workers) Update(pod *corev1.Pod, kind Kind) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.worker(pod)
	if w.phase == finished {
		return
	}
	w.pod = pod
	if w.orphan {
		// The API knows the pod after all, but its containers are being stopped: it terminates.
		w.orphan = false
	}
	if ends(pod) {
		ws.end(w, nil)
	}
	ws.signal(w, kind)
}

// Kill terminates a pod for a reason of the node's own, or because it is gone from the API.
func (ws *Workers) Kill(pod *corev1.Pod, kill Kill) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.worker(pod)
	if w.phase == finished {
		return
	}
	ws.end(w, &kill)
	ws.signal(w, Sync)
}

// KillOrphan terminates a pod that only the runtime knows; pod holds its identity. It does nothing
// if the pod has a worker.
func (ws *Workers) KillOrphan(pod *corev1.Pod) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.workers[string(pod.UID)] != nil {
		return
	}
	w := ws.worker(pod)
	w.orphan = true
	ws.end(w, nil)
	ws.signal(w, Sync)
}

// worker returns the worker of pod, creating it if necessary. The caller holds ws.mu.
func (ws *Workers) worker(pod *corev1.Pod) *worker {
	uid := string(pod.UID)
	if w := ws.workers[uid]; w != nil {
		return w
	}
	w := &worker{uid: uid, pod: pod, wake: make(chan struct{}, 1)}
	ws.workers[uid] = w
	ws.starts = append(ws.starts, w)
	select {
	case ws.started <- struct{}{}:
	default:
	}
	return w
}

// end starts the termination of a pod, or shortens the grace period of a pod that is terminating.
// The caller holds ws.mu.
func (ws *Workers) end(w *worker, kill *Kill) {
	grace := graceOf(w.pod, kill)
	switch w.phase {
	case syncing:
		w.phase, w.grace, w.kill = terminating, grace, kill
	case terminating:
		if w.kill == nil {
			w.kill = kill
		}
		if grace >= w.grace {
			return
		}
		w.grace = grace
	default:
		return
	}
	if w.cancel != nil {
		w.cancel()
	}
}

// ends reports whether the API wants pod to terminate, or shows it as ended.
func ends(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// graceOf returns the grace period of pod's containers in seconds: the kill's, else the delete
// request's, else the pod's own. It is at least 1, so that containers are signalled before they are
// killed.
func graceOf(pod *corev1.Pod, kill *Kill) int64 {
	grace := int64(corev1.DefaultTerminationGracePeriodSeconds)
	switch {
	case kill != nil && kill.Grace != nil:
		grace = *kill.Grace
	case pod.DeletionGracePeriodSeconds != nil:
		grace = *pod.DeletionGracePeriodSeconds
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		grace = *pod.Spec.TerminationGracePeriodSeconds
	}
	return max(grace, 1)
}

// Due returns the pods that are due for a sync by now and clears their due times.
func (ws *Workers) Due(now time.Time) []*corev1.Pod {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	var due []*corev1.Pod
	for _, w := range ws.workers {
		if w.due.IsZero() || w.due.After(now) || w.phase == finished {
			continue
		}
		w.due = time.Time{}
		due = append(due, w.pod)
	}
	return due
}

// Wake syncs the pod with this UID, if it has a worker.
func (ws *Workers) Wake(uid string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w := ws.workers[uid]; w != nil && w.phase != finished {
		ws.signal(w, Sync)
	}
}

// Known reports whether the pod has a worker, and whether that has finished.
func (ws *Workers) Known(uid string) (known, done bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.workers[uid]
	return w != nil, w != nil && w.phase == finished
}

// Terminating reports whether the pod is terminating or has terminated.
func (ws *Workers) Terminating(uid string) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.workers[uid]
	return w != nil && w.phase != syncing
}

// Forget drops the finished workers of pods that are no longer wanted and returns their UIDs. alive
// are unwanted pods that have not been told to terminate.
func (ws *Workers) Forget(wanted func(uid string) bool) (dropped []string, alive []*corev1.Pod) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for uid, w := range ws.workers {
		switch {
		case wanted(uid):
		case w.phase == finished:
			delete(ws.workers, uid)
			dropped = append(dropped, uid)
		case w.phase == syncing:
			alive = append(alive, w.pod)
		}
	}
	return dropped, alive
}

// jitter lengthens the delay before a pod's next step by up to half, so that pods do not sync in
// step.
const jitter = 0.5
