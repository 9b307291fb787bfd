package prober

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

// The kinds of probes, as spelled in Events.
const (
	liveness  = "Liveness"
	readiness = "Readiness"
	startup   = "Startup"
)

// Config configures a Prober.
type Config struct {
	Exec Execer
	// Dial opens connections to pods; the network when nil.
	Dial Dial
	// State returns the runtime's state of a pod.
	State func(uid string) *podstate.Pod
	// Event records an Event about a container of a pod.
	Event func(pod *corev1.Pod, container, eventType, reason, format string, args ...any)
	// HostIP is the address of pods that use the host's network.
	HostIP string
	// Registerer receives the metrics of probes.
	Registerer prometheus.Registerer
	Logger     *slog.Logger
}

// Prober probes containers. Any goroutine may use it.
type Prober struct {
	cfg Config
	// changed carries the UIDs of pods with a changed result; its reader must be quick.
	changed chan string
	metrics *metrics

	mu      sync.Mutex
	workers map[key]*worker
	// results holds results by probe and container ID.
	results map[result]bool
	starts  []*worker
	started chan struct{}
}

type key struct{ uid, container, probe string }

type result struct{ probe, id string }

type worker struct {
	key
	pod       *corev1.Pod
	container *corev1.Container
	probe     *corev1.Probe
	stop      chan struct{}
}

// New returns a Prober; nothing is probed before Run.
func New(cfg Config) *Prober {
	return &Prober{
		cfg: cfg, changed: make(chan string, 64), workers: map[key]*worker{}, results: map[result]bool{},
		started: make(chan struct{}, 1),
		metrics: newMetrics(cfg.Registerer),
	}
}

// Changed returns a channel of the UIDs of pods with a changed probe result.
func (p *Prober) Changed() <-chan string { return p.changed }

// Run probes until ctx ends and no probe is in flight.
func (p *Prober) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		p.mu.Lock()
		starts := p.starts
		p.starts = nil
		p.mu.Unlock()
		for _, w := range starts {
			wg.Go(func() { p.work(ctx, w) })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.started:
		}
	}
}

// Add starts probing the containers of pod. Adding a pod again has no effect.
func (p *Prober) Add(pod *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	add := func(c *corev1.Container) {
		for name, probe := range map[string]*corev1.Probe{
			liveness: c.LivenessProbe, readiness: c.ReadinessProbe, startup: c.StartupProbe,
		} {
			k := key{string(pod.UID), c.Name, name}
			if probe == nil || p.workers[k] != nil {
				continue
			}
			w := &worker{key: k, pod: pod, container: c, probe: probe, stop: make(chan struct{})}
			p.workers[k] = w
			p.starts = append(p.starts, w)
		}
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.RestartPolicy != nil {
			add(c)
		}
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i])
	}
	select {
	case p.started <- struct{}{}:
	default:
	}
}

// Terminating stops the liveness and startup probes of a pod that is being stopped: only its
// readiness still counts.
func (p *Prober) Terminating(uid string) {
	p.end(func(k key) bool { return k.uid == uid && k.probe != readiness })
}

// Remove stops all probes of a pod.
func (p *Prober) Remove(uid string) { p.end(func(k key) bool { return k.uid == uid }) }

func (p *Prober) end(which func(key) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k, w := range p.workers {
		if which(k) {
			close(w.stop)
			delete(p.workers, k)
		}
	}
}

// Forget drops the results of containers that are gone.
func (p *Prober) Forget(gone func(id string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for r := range p.results {
		if gone(r.id) {
			delete(p.results, r)
		}
	}
}

// Failed reports whether the liveness or startup probe of a container has failed, and which.
func (p *Prober) Failed(id string) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ok, known := p.results[result{liveness, id}]; known && !ok {
		return "liveness", true
	}
	if ok, known := p.results[result{startup, id}]; known && !ok {
		return "startup", true
	}
	return "", false
}

// Started reports whether the container's startup probe, if it has one, has succeeded.
func (p *Prober) Started(_ *corev1.Pod, c *corev1.Container, id string) bool {
	if c.StartupProbe == nil {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.results[result{startup, id}]
}

// Ready reports whether the container's readiness probe, if it has one, has succeeded.
func (p *Prober) Ready(c *corev1.Container, id string) bool {
	if c.ReadinessProbe == nil {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.results[result{readiness, id}]
}

// work runs one probe of one container.
func (p *Prober) work(ctx context.Context, w *worker) {
	period := max(time.Second, time.Duration(w.probe.PeriodSeconds)*time.Second)
	// An agent that starts with many pods must not probe them all at once.
	next := time.NewTimer(rand.N(min(period, time.Second)))
	defer next.Stop()
	defer p.metrics.forget(w)
	var s streak
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.stop:
			return
		case <-next.C:
		}
		next.Reset(p.round(ctx, w, &s, period))
	}
}

// streak counts consecutive equal results for one container.
type streak struct {
	id  string
	ok  bool
	run int32
	// settled reports that the container needs no more of this probe: a startup probe has a result,
	// or a liveness probe has failed.
	settled bool
}

// round probes once if the probe is due, and returns the wait until the next round.
func (p *Prober) round(ctx context.Context, w *worker, s *streak, period time.Duration) time.Duration {
	const soon = 200 * time.Millisecond // delay within which a starting container is noticed
	state := p.cfg.State(w.uid)
	c := state.Container(w.container.Name)
	if c == nil || c.State != runtime.Running {
		return min(soon, period)
	}
	if s.id != c.ID {
		*s = streak{id: c.ID}
	}
	if s.settled {
		return period
	}
	if wait := time.Duration(w.probe.InitialDelaySeconds)*time.Second - time.Since(c.StartedAt); wait > 0 {
		return min(wait, period)
	}
	if w.key.probe != startup && !p.Started(w.pod, w.container, c.ID) {
		return min(soon, period)
	}
	ip := p.cfg.HostIP
	if !w.pod.Spec.HostNetwork {
		ips := state.IPs()
		if len(ips) == 0 {
			return min(soon, period)
		}
		ip = ips[0]
	}
	began := time.Now()
	ok, output, err := once(ctx, p.cfg.Exec, p.cfg.Dial, target{w.pod, w.container, c.ID, ip}, w.probe)
	if ctx.Err() != nil {
		return period
	}
	p.metrics.count(w, ok, err, time.Since(began))
	switch {
	case err != nil:
		// An error shows nothing about the container: a runtime that does not answer is no reason
		// to kill what it runs (the kubelet discards such results too).
		p.cfg.Event(w.pod, w.container.Name, corev1.EventTypeWarning, "Unhealthy",
			"%s probe errored and resulted in unknown state: %v", w.key.probe, err)
		return period
	case !ok:
		p.cfg.Event(w.pod, w.container.Name, corev1.EventTypeWarning, "Unhealthy", "%s probe failed: %s", w.key.probe, output)
	}
	p.count(ctx, w, s, ok)
	return period
}

// count adds one result to the streak and, at the threshold, makes it the probe's result.
func (p *Prober) count(ctx context.Context, w *worker, s *streak, ok bool) {
	if s.run > 0 && s.ok == ok {
		s.run++
	} else {
		s.ok, s.run = ok, 1
	}
	threshold := max(1, w.probe.SuccessThreshold)
	if !ok {
		threshold = w.probe.FailureThreshold
		if threshold <= 0 {
			threshold = 3
		}
	}
	if s.run < threshold {
		return
	}
	s.settled = (w.key.probe == startup) || (w.key.probe == liveness && !ok)
	r := result{w.key.probe, s.id}
	p.mu.Lock()
	old, known := p.results[r]
	// A probe that has just been stopped no longer counts.
	live := p.workers[w.key] == w
	if live {
		p.results[r] = ok
	}
	p.mu.Unlock()
	if !live || (known && old == ok) {
		return
	}
	select {
	case p.changed <- w.uid:
	case <-w.stop:
	case <-ctx.Done():
	}
}
