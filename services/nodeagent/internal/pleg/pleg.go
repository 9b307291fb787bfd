// Package pleg generates the lifecycle events of pods: it lists what the runtime holds every
// second, and at once when nudged, keeps the result as the cache that pod workers read, and
// tells which pods changed (Kubernetes' Pod Lifecycle Event Generator). Events of the runtime
// only make the next list sooner; they are never believed for themselves.
package pleg

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

const (
	// Period is how often the runtime is listed when nothing nudges.
	Period = time.Second
	// Healthy is how old the last list may be before the node is not ready.
	Healthy = 3 * time.Minute
	// spacing is the least time between two lists, however often someone nudges.
	spacing = 20 * time.Millisecond
)

// Runtime lists what a container runtime holds.
type Runtime interface {
	Sandboxes(ctx context.Context) ([]runtime.Sandbox, error)
	Containers(ctx context.Context) ([]runtime.Container, error)
	// Events hands over what happens until ctx ends; runtime.ErrUnsupported if it cannot.
	Events(ctx context.Context, handle func(runtime.Event)) error
}

// PLEG lists and caches. Any goroutine may use it.
type PLEG struct {
	runtime Runtime
	logger  *slog.Logger
	nudge   chan struct{}
	changed chan string

	mu   sync.Mutex
	pods map[string]*podstate.Pod
	// listed is when the list that made pods began.
	listed time.Time
	// renewed is closed when pods is next replaced.
	renewed chan struct{}
}

// New makes a PLEG over a runtime.
func New(r Runtime, logger *slog.Logger) *PLEG {
	return &PLEG{
		runtime: r, logger: logger,
		nudge:   make(chan struct{}, 1),
		changed: make(chan string),
		pods:    map[string]*podstate.Pod{},
		renewed: make(chan struct{}),
	}
}

// Changed gives the UIDs of pods whose sandboxes or containers changed. Someone must read it
// while Run runs.
func (p *PLEG) Changed() <-chan string { return p.changed }

// Nudge asks for a list now.
func (p *PLEG) Nudge() {
	select {
	case p.nudge <- struct{}{}:
	default:
	}
}

// Run lists until ctx ends.
func (p *PLEG) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { p.follow(ctx) })
	tick := time.NewTicker(Period)
	defer tick.Stop()
	for {
		began := time.Now()
		if err := p.relist(ctx); err != nil && ctx.Err() == nil {
			p.logger.Error("listing the runtime's pods failed", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-p.nudge:
		}
		if rest := spacing - time.Since(began); rest > 0 {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(rest):
			}
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
			p.logger.Info("the container runtime has no events; relisting finds changes")
			return
		}
		p.logger.Warn("the container runtime's events broke off", "error", err, "again", wait)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// relist reads the runtime, replaces the cache and tells what changed.
func (p *PLEG) relist(ctx context.Context) error {
	began := time.Now()
	// Containers first: one that is made between the two calls is then missed until the next
	// list, never seen without its sandbox.
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

// same compares what of a pod makes a difference: which sandboxes and containers there are,
// and their states.
func same(a, b *podstate.Pod) bool {
	if a == nil || b == nil {
		return a == b
	}
	if len(a.Sandboxes) != len(b.Sandboxes) || len(a.Containers) != len(b.Containers) {
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

// NewerThan waits until the runtime was listed after t, at least once, and gives the pod's
// state then: one with nothing in it if the runtime knows nothing of it.
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

// Pod is the state of a pod by the last list; one with nothing in it if there is none.
func (p *PLEG) Pod(uid string) *podstate.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pod := p.pods[uid]; pod != nil {
		return pod
	}
	return &podstate.Pod{UID: uid}
}

// Pods are all pods of the last list, by UID, and when that list began. The map is shared:
// do not change it.
func (p *PLEG) Pods() (map[string]*podstate.Pod, time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pods, p.listed
}
