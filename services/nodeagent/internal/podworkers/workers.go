package podworkers

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
)

// Kind says why a pod is synced.
type Kind int

// The kinds of updates.
const (
	// Create is the first sync of a pod.
	Create Kind = iota
	// Update follows a change of what is wanted.
	Update
	// Sync follows a change of what is, or time.
	Sync
)

// String names the kind as logs show it.
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

// Kill ends a pod that was not asked to end by the API.
type Kill struct {
	// Grace is how many seconds its containers get; the pod's own when nil.
	Grace *int64
	// Phase, Reason and Message are put into the pod's status when Phase is set.
	Phase           corev1.PodPhase
	Reason, Message string
	// Conditions are then put there, too.
	Conditions []corev1.PodCondition
}

// Outcome is what a sync says of the next.
type Outcome struct {
	// Terminal says that the pod has ended by itself and will not start anything any more.
	Terminal bool
	// Kill says with Terminal that the pod has to end though containers may run, and why.
	Kill *Kill
	// RetryAfter asks for the next sync in this time, if nothing happens earlier.
	RetryAfter time.Duration
}

// Syncer does the steps. For one pod calls come one at a time. A step that returns an error
// is done again after Outcome.RetryAfter, or RetryPeriod. Its ctx ends when the pod is to be
// killed meanwhile, or sooner than was said.
type Syncer interface {
	// Sync brings a living pod nearer to what is wanted.
	Sync(ctx context.Context, kind Kind, pod *corev1.Pod, state *podstate.Pod) (Outcome, error)
	// Terminate stops all containers of the pod, which get grace seconds; it returns nil only
	// when none runs.
	Terminate(ctx context.Context, pod *corev1.Pod, state *podstate.Pod, grace int64, kill *Kill) error
	// TerminateOrphan stops all containers of a pod that only the runtime knows.
	TerminateOrphan(ctx context.Context, pod *corev1.Pod, state *podstate.Pod) error
	// Terminated cleans up after a pod whose containers have ended.
	Terminated(ctx context.Context, pod *corev1.Pod, state *podstate.Pod) error
}

// Cache knows the runtime's state of pods.
type Cache interface {
	// NewerThan waits until the state of a pod was read after t; an error only when ctx ends.
	NewerThan(ctx context.Context, uid string, t time.Time) (*podstate.Pod, error)
}

// Config is what Workers needs.
type Config struct {
	Syncer Syncer
	Cache  Cache
	// ResyncPeriod is how often a pod is synced when nothing happens: 1 min when 0.
	ResyncPeriod time.Duration
	// RetryPeriod is how long after an error a pod is synced again: 10 s when 0.
	RetryPeriod time.Duration
	Logger      *slog.Logger
}

// Workers are the workers of all pods of the node. Any goroutine may use it.
type Workers struct {
	cfg Config

	mu      sync.Mutex
	workers map[string]*worker
	// starts are workers without a goroutine yet; started tells Run of them.
	starts  []*worker
	started chan struct{}
}

// New makes Workers; no pod is worked on before Run.
func New(cfg Config) *Workers {
	if cfg.ResyncPeriod == 0 {
		cfg.ResyncPeriod = time.Minute
	}
	if cfg.RetryPeriod == 0 {
		cfg.RetryPeriod = 10 * time.Second
	}
	return &Workers{cfg: cfg, workers: map[string]*worker{}, started: make(chan struct{}, 1)}
}

// Run works on pods until ctx ends, and returns when every worker has.
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

// Update tells of a pod: that it is new, that what is wanted of it changed, or that it is
// time to look. A pod with a deletion timestamp, or whose phase is Succeeded or Failed, is
// ended. An update of a pod that is finished does nothing.
func (ws *Workers) Update(pod *corev1.Pod, kind Kind) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.worker(pod)
	if w.phase == finished {
		return
	}
	w.pod = pod
	if w.orphan {
		// The API knows the pod after all, but its containers are being stopped: it ends.
		w.orphan = false
	}
	if ends(pod) {
		ws.end(w, nil)
	}
	ws.signal(w, kind)
}

// Kill ends a pod for a reason of the node's own, or one that is gone from the API.
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

// KillOrphan ends a pod that only the runtime knows; pod holds its identity. Nothing happens
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

// worker finds or makes the worker of pod. The caller holds ws.mu.
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

// end sets the pod on its way out, or shortens the grace of one that is. The caller holds
// ws.mu.
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

// ends says whether the API wants pod to end, or saw it end.
func ends(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// graceOf is how many seconds the containers of pod get: the killer's word, that of the
// delete request, the pod's own; at least 1, so that they hear of their end.
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

// Due gives the pods whose time has come by now, and takes them as told.
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

// Known says whether the pod has a worker, and whether that has finished.
func (ws *Workers) Known(uid string) (known, done bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.workers[uid]
	return w != nil, w != nil && w.phase == finished
}

// Terminating says whether the pod is on its way out, or has been.
func (ws *Workers) Terminating(uid string) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.workers[uid]
	return w != nil && w.phase != syncing
}

// Forget drops the finished workers of pods that are not wanted any more, and gives their
// UIDs; alive are pods that are not wanted but have not been told to end.
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

// jitter spreads d by up to a half, so that pods do not move in step.
func jitter(d time.Duration) time.Duration {
	return d + rand.N(d/2+1)
}
