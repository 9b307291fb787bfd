// Package pleg is the pod lifecycle event generator (Kubernetes' PLEG). It lists the runtime's
// sandboxes and containers every second, and at once when nudged. It caches the result for the pod
// workers and reports which pods changed. Events of the runtime only trigger the next list; they
// are never trusted by themselves.
package pleg

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

const (
	// Period is the interval between lists of the runtime without a nudge.
	Period = time.Second
	// Healthy is the maximum age of the last list before the node becomes not ready.
	Healthy = 3 * time.Minute
	// spacing is the minimum time between two lists, however frequent the nudges.
	spacing = 20 * time.Millisecond
)

// Runtime lists the contents of a container runtime.
type Runtime interface {
	Sandboxes(ctx context.Context) ([]runtime.Sandbox, error)
	Containers(ctx context.Context) ([]runtime.Container, error)
	// Events passes events to handle until ctx ends; runtime.ErrUnsupported if it cannot.
	Events(ctx context.Context, handle func(runtime.Event)) error
}

// PLEG lists the runtime and caches the result. Any goroutine may use it.
type PLEG struct {
	runtime Runtime
	logger  *slog.Logger
	nudge   chan struct{}
	changed chan string

	mu   sync.Mutex
	pods map[string]*podstate.Pod
	// listed is when the list that produced pods began.
	listed time.Time
	// renewed is closed when pods is next replaced.
	renewed chan struct{}
}

// New returns a PLEG for a runtime.
func New(r Runtime, logger *slog.Logger) *PLEG {
	return &PLEG{
		runtime: r, logger: logger,
		nudge:   make(chan struct{}, 1),
		changed: make(chan string),
		pods:    map[string]*podstate.Pod{},
		renewed: make(chan struct{}),
	}
}

// Changed returns a channel of the UIDs of pods whose sandboxes or containers changed. It must be
// read while Run runs.
func (p *PLEG) Changed() <-chan string { return p.changed }

// Nudge triggers a list now.
func (p *PLEG) Nudge() {
	select {
	case p.nudge <- struct{}{}:
	default:
	}
}

// Run lists the runtime until ctx ends.
func (p *PLEG) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { p.follow(ctx) })
	tick := time.NewTicker(Period)
	defer tick.Stop()
	for {
		began := time.Now()
		if err := p.relist(ctx); err != nil && ctx.Err() == nil {
			p.logger.Error("listing the runtime's pods failed", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-p.nudge:
		}
		if !backoff.Sleep(ctx, spacing-time.Since(began)) {
			return nil
		}
	}
}

// follow nudges at every event of the runtime, if it has events.
func (p *PLEG) follow(ctx context.Context) {
	for ctx.Err() == nil {
		err := p.runtime.Events(ctx, func(runtime.Event) { p.Nudge() })
		if ctx.Err() != nil {
			return
		}
		wait := 5 * time.Second
		if errors.Is(err, runtime.ErrUnsupported) {
			p.logger.Info("the container runtime has no events; relisting detects changes")
			return
		}
		p.logger.Warn("the stream of the container runtime's events broke", "err", err, "again", wait)
		backoff.Sleep(ctx, wait)
	}
}

// relist lists the runtime, replaces the cache and reports the pods that changed.
func (p *PLEG) relist(ctx context.Context) error {
	began := time.Now()
	// Containers first: a container created between the two calls is then missed until the next
	// list, but never seen without its sandbox.
	containers, err := p.runtime.Containers(ctx)
	if err != nil {
		return err
	}
	sandboxes, err := p.runtime.Sandboxes(ctx)
	if err != nil {
		return err
	}
	fresh := podstate.Group(sandboxes, containers)
	p.mu.Lock()
	old := p.pods
	p.hold(fresh, old)
	p.pods, p.listed = fresh, began
	close(p.renewed)
	p.renewed = make(chan struct{})
	p.mu.Unlock()

	uids := map[string]bool{}
	for uid := range maps.Keys(old) {
		uids[uid] = true
	}
	for uid := range maps.Keys(fresh) {
		uids[uid] = true
	}
	for uid := range uids {
		if same(old[uid], fresh[uid]) {
			continue
		}
		select {
		case p.changed <- uid:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// hold keeps what was known of pods that the runtime can no longer read.
func (p *PLEG) hold(fresh, old map[string]*podstate.Pod) {
	for uid, pod := range fresh {
		if pod.Err == nil {
			continue
		}
		before := old[uid]
		if before == nil || before.Err == nil {
			p.logger.Error("the runtime cannot read a pod, which waits until it can", "namespace", pod.Namespace, "name", pod.Name, "uid", uid, "err", pod.Err)
		}
		if before != nil {
			held := *before
			held.Err = pod.Err
			fresh[uid] = &held
		}
	}
}

// same reports whether two states of a pod have the same sandboxes and containers in the same
// states.
func same(a, b *podstate.Pod) bool {
	if a == nil || b == nil {
		return a == b
	}
	if (a.Err == nil) != (b.Err == nil) || len(a.Sandboxes) != len(b.Sandboxes) || len(a.Containers) != len(b.Containers) {
		return false
	}
	for i := range a.Sandboxes {
		x, y := &a.Sandboxes[i], &b.Sandboxes[i]
		if x.ID != y.ID || x.Ready != y.Ready || len(x.IPs) != len(y.IPs) {
			return false
		}
	}
	for i := range a.Containers {
		if a.Containers[i].ID != b.Containers[i].ID || a.Containers[i].State != b.Containers[i].State {
			return false
		}
	}
	return true
}

// NewerThan waits until the runtime has been listed after t, and at least once. It returns the
// pod's state in that list: an empty one if the runtime does not know the pod.
func (p *PLEG) NewerThan(ctx context.Context, uid string, t time.Time) (*podstate.Pod, error) {
	for {
		p.mu.Lock()
		listed, renewed, pod := p.listed, p.renewed, p.pods[uid]
		p.mu.Unlock()
		if listed.After(t) {
			if pod == nil {
				pod = &podstate.Pod{UID: uid}
			}
			return pod, nil
		}
		if !t.IsZero() {
			p.Nudge()
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-renewed:
		}
	}
}

// Pod returns the state of a pod in the last list; an empty one if there is none.
func (p *PLEG) Pod(uid string) *podstate.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pod := p.pods[uid]; pod != nil {
		return pod
	}
	return &podstate.Pod{UID: uid}
}

// Pods returns all pods of the last list by UID, and when that list began. The map is shared: do
// not modify it.
func (p *PLEG) Pods() (map[string]*podstate.Pod, time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pods, p.listed
}
