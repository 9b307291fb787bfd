// Package shutdown terminates the pods of a node that is about to go away, as the kubelet's
// graceful node shutdown does: critical pods last, each group within its share of the time.
package shutdown

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/admit"
	"github.com/garboard/garboard/services/nodeagent/internal/podworkers"
)

// Reasons and messages on pods and node, in the kubelet's words.
const (
	// Problem is the reason why the node is not ready.
	Problem = "node is shutting down"

	podReason     = "Terminated"
	podMessage    = "Pod was terminated in response to imminent node shutdown."
	refuseReason  = "NodeShutdown"
	refuseMessage = "Pod was rejected as the node is shutting down."
)

const (
	// critical is the lowest priority of critical pods: that of Kubernetes'
	// system-cluster-critical.
	critical = int32(2_000_000_000)
	// reserve is the time, at most a fifth of a group's period, withheld from its containers'
	// grace: their final status must be reported too.
	reserve = 2 * time.Second
	// lookPeriod is the interval between checks whether the pods have ended.
	lookPeriod = 50 * time.Millisecond
)

// Config configures a Shutdown; every field is required.
type Config struct {
	// Period is the duration of the whole shutdown; CriticalPods is the part at its end that is
	// reserved for critical pods.
	Period, CriticalPods time.Duration
	// Pods returns the pods that have not ended.
	Pods func() []*corev1.Pod
	// Kill terminates a pod; Ended reports whether the API knows that it has ended.
	Kill   func(pod *corev1.Pod, kill podworkers.Kill)
	Ended  func(pod *corev1.Pod) bool
	Logger *slog.Logger
}

// Shutdown is the graceful shutdown of a node.
type Shutdown struct {
	cfg   Config
	begun atomic.Bool
}

// New returns a Shutdown that has not begun.
func New(cfg Config) *Shutdown { return &Shutdown{cfg: cfg} }

// Begin makes the node reject new pods.
func (s *Shutdown) Begin() { s.begun.Store(true) }

// Begun reports whether Begin was called.
func (s *Shutdown) Begun() bool { return s.begun.Load() }

// Refuse returns the rejection of new pods; nil before Begin.
func (s *Shutdown) Refuse() *admit.Rejection {
	if !s.Begun() {
		return nil
	}
	return &admit.Rejection{Reason: refuseReason, Message: refuseMessage}
}

// EndPods terminates the pods. It returns when all have ended, when the period is over, or when ctx
// ends.
func (s *Shutdown) EndPods(ctx context.Context) {
	pods := s.cfg.Pods()
	for _, group := range []struct {
		name   string
		period time.Duration
		wanted func(*corev1.Pod) bool
	}{
		{"ordinary", s.cfg.Period - s.cfg.CriticalPods, func(pod *corev1.Pod) bool { return !isCritical(pod) }},
		{"critical", s.cfg.CriticalPods, isCritical},
	} {
		began := time.Now()
		left := slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return !group.wanted(pod) })
		if len(left) == 0 {
			continue // There is nothing to wait for.
		}
		count := len(left)
		left = s.endGroup(ctx, left, group.period)
		s.cfg.Logger.Info("shutting down", "done", "pods have ended", "pods", group.name, "count", count, "left", len(left), "took", time.Since(began).Round(time.Millisecond))
		for _, pod := range left {
			s.cfg.Logger.Warn("a pod did not end in time", "namespace", pod.Namespace, "name", pod.Name, "uid", pod.UID, "period", group.period)
		}
	}
}

// endGroup terminates pods within period and returns those that have not ended.
func (s *Shutdown) endGroup(ctx context.Context, pods []*corev1.Pod, period time.Duration) []*corev1.Pod {
	for _, pod := range pods {
		s.cfg.Kill(pod, kill(pod, period))
	}
	ctx, cancel := context.WithTimeout(ctx, period)
	defer cancel()
	tick := time.NewTicker(lookPeriod)
	defer tick.Stop()
	for {
		pods = slices.DeleteFunc(pods, s.cfg.Ended)
		if len(pods) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return pods
		case <-tick.C:
		}
	}
}

// kill returns how to terminate a pod within period: with its own grace period if that is shorter.
func kill(pod *corev1.Pod, period time.Duration) podworkers.Kill {
	grace := int64((period - min(reserve, period/5)) / time.Second)
	if wanted := pod.Spec.TerminationGracePeriodSeconds; wanted != nil && *wanted <= grace {
		grace = *wanted
	}
	return podworkers.Kill{
		Grace: &grace, Phase: corev1.PodFailed, Reason: podReason, Message: podMessage,
		Conditions: []corev1.PodCondition{{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonTerminationByKubelet, Message: podMessage,
		}},
	}
}

func isCritical(pod *corev1.Pod) bool {
	return pod.Spec.Priority != nil && *pod.Spec.Priority >= critical
}
