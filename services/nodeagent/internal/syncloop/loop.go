package syncloop

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/admit"
	"github.com/garboard/garboard/services/nodeagent/internal/desired"
	"github.com/garboard/garboard/services/nodeagent/internal/podworkers"
	"github.com/garboard/garboard/services/nodeagent/internal/status"
)

const (
	tickPeriod = time.Second
	// housekeepingPeriod is the interval between housekeeping runs (the kubelet's).
	housekeepingPeriod = 2 * time.Second
	// fetchTimeout bounds how long the loop waits for the node's newest version.
	fetchTimeout = 5 * time.Second
)

// Workers are the pod workers.
type Workers interface {
	Update(pod *corev1.Pod, kind podworkers.Kind)
	Kill(pod *corev1.Pod, kill podworkers.Kill)
	Wake(uid string)
	Due(now time.Time) []*corev1.Pod
	Terminating(uid string) bool
}

// Config configures a Loop.
type Config struct {
	// Changes are the changes of the wanted pods.
	Changes <-chan Change
	// Ready reports whether every pod wanted at the start has been delivered.
	Ready func() bool
	// Lifecycle carries the UIDs of pods that changed in the runtime, Probes those of pods with a
	// changed probe result.
	Lifecycle, Probes <-chan string
	Pods              *desired.Store
	Workers           Workers
	Status            *status.Writer
	// Node returns the node that pods must fit, as it was when its status was last reported.
	Node func() *corev1.Node
	// FetchNode returns it as it is now.
	FetchNode func(ctx context.Context) (*corev1.Node, error)
	// Refuse returns the reason why the node takes no more pods; nil while it does.
	Refuse func() *admit.Rejection
	// Sysctls are the kernel parameters that pods may set.
	Sysctls *admit.Sysctls
	// AppArmor reports whether the node enforces AppArmor profiles.
	AppArmor bool
	// Reject marks a pod that the node does not take as Failed.
	Reject func(pod *corev1.Pod, reason, message string)
	// Housekeep cleans up. The loop calls it only when Ready, and never twice at a time.
	Housekeep func(ctx context.Context) error
	Logger    *slog.Logger
}

// Loop is the node agent's main loop.
type Loop struct {
	cfg Config
	// rejected holds the pods that the node did not take; nothing is done for them.
	rejected map[string]bool
	// turned is when the loop last began a turn, in nanoseconds since 1970; 0 before Run.
	turned atomic.Int64
}

// New returns a Loop.
func New(cfg Config) *Loop { return &Loop{cfg: cfg, rejected: map[string]bool{}} }

// Run loops until ctx ends.
func (l *Loop) Run(ctx context.Context) error {
	tick := time.NewTicker(tickPeriod)
	defer tick.Stop()
	housekeeping := time.NewTicker(housekeepingPeriod)
	defer housekeeping.Stop()
	cleaned := make(chan error, 1)
	cleaning := false
	defer func() {
		if cleaning {
			_ = <-cleaned //nolint:staticcheck // Its error no longer matters: the loop has ended.
		}
	}()
	for {
		l.turned.Store(time.Now().UnixNano())
		select {
		case <-ctx.Done():
			return nil
		case change := <-l.cfg.Changes:
			l.change(ctx, change)
		case uid := <-l.cfg.Lifecycle:
			l.cfg.Workers.Wake(uid)
		case uid := <-l.cfg.Probes:
			l.cfg.Workers.Wake(uid)
		case now := <-tick.C:
			l.cfg.Status.Recheck(now)
			for _, pod := range l.cfg.Workers.Due(now) {
				l.cfg.Workers.Wake(string(pod.UID))
			}
		case err := <-cleaned:
			cleaning = false
			if err != nil && ctx.Err() == nil {
				l.cfg.Logger.Error("housekeeping failed", "err", err)
			}
		case <-housekeeping.C:
			// Before every pod is known, a wanted pod would be mistaken for an orphan.
			if cleaning || !l.cfg.Ready() {
				continue
			}
			cleaning = true
			go func() { cleaned <- l.cfg.Housekeep(ctx) }()
		}
	}
}

// stuck is the time after which a turn of the loop has taken too long (the kubelet's).
const stuck = 2 * time.Minute

// Health returns an error if the loop has not turned for some minutes. Before Run it is healthy.
func (l *Loop) Health() error {
	if turned := l.turned.Load(); turned != 0 && time.Since(time.Unix(0, turned)) > stuck {
		return errors.New("sync Loop took longer than expected")
	}
	return nil
}

// change handles one change of the wanted pods.
func (l *Loop) change(ctx context.Context, c Change) {
	uid := string(c.Pod.UID)
	l.cfg.Logger.Debug("sync loop", "op", c.Op.String(), "namespace", c.Pod.Namespace, "name", c.Pod.Name, "uid", uid)
	switch c.Op {
	case Add:
		l.cfg.Pods.Set(c.Pod)
		l.cfg.Status.Observe(c.Pod)
		if !l.admit(ctx, c.Pod) {
			return
		}
		l.cfg.Workers.Update(c.Pod, podworkers.Create)
	case Update, Delete:
		l.cfg.Pods.Set(c.Pod)
		l.cfg.Status.Observe(c.Pod)
		if !l.rejected[uid] {
			l.cfg.Workers.Update(c.Pod, podworkers.Update)
		}
	case Reconcile:
		l.cfg.Pods.Set(c.Pod)
		l.cfg.Status.Observe(c.Pod)
		// Another writer may have ended the pod by its status, or set the condition of a readiness
		// gate.
		if l.rejected[uid] {
			return
		}
		if status.IsTerminal(c.Pod.Status.Phase) || len(c.Pod.Spec.ReadinessGates) > 0 {
			l.cfg.Workers.Update(c.Pod, podworkers.Sync)
		}
	case Remove:
		l.cfg.Pods.Delete(uid)
		if l.rejected[uid] {
			delete(l.rejected, uid)
			l.cfg.Status.Forget(uid)
			return
		}
		l.cfg.Workers.Kill(c.Pod, podworkers.Kill{})
	}
}

// admit decides whether the node takes a new pod. It always takes a pod that an earlier agent of
// this node took (its status has a start time): its containers may run.
func (l *Loop) admit(ctx context.Context, pod *corev1.Pod) bool {
	if pod.Status.StartTime != nil || status.IsTerminal(pod.Status.Phase) || pod.DeletionTimestamp != nil {
		return true
	}
	rejection := l.cfg.Refuse()
	if rejection == nil {
		rejection = l.cfg.Sysctls.Check(pod)
	}
	if rejection == nil {
		rejection = admit.AppArmor(pod, l.cfg.AppArmor)
	}
	if rejection == nil {
		rejection = l.check(ctx, pod)
	}
	if rejection == nil {
		return true
	}
	l.rejected[string(pod.UID)] = true
	l.cfg.Reject(pod, rejection.Reason, rejection.Message)
	return false
}

// check returns the reason why the node does not take a pod in addition to those it has; nil if it
// does. The scheduler may have seen labels and taints that are newer than the agent's: before they are the
// reason, the node is read again.
func (l *Loop) check(ctx context.Context, pod *corev1.Pod) *admit.Rejection {
	others := slices.DeleteFunc(l.cfg.Pods.List(), func(other *corev1.Pod) bool {
		uid := string(other.UID)
		return other.UID == pod.UID || l.rejected[uid] || status.IsTerminal(other.Status.Phase) ||
			other.CreationTimestamp.After(pod.CreationTimestamp.Time) && other.Status.StartTime == nil
	})
	rejection := admit.Check(pod, others, l.cfg.Node())
	if rejection == nil || !rejection.DependsOnNode() {
		return rejection
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	node, err := l.cfg.FetchNode(ctx)
	if err != nil {
		l.cfg.Logger.Warn("reading the node again failed; the pod is judged by its last known version",
			"namespace", pod.Namespace, "name", pod.Name, "err", err)
		return rejection
	}
	return admit.Check(pod, others, node)
}
