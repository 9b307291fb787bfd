// Package shutdown ends the pods of a node that is about to go, as the kubelet's graceful node
// shutdown does: those that the system needs last, each group within its share of the time.
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

// What pods and the node say of it, in the kubelet's words.
const (
	// Problem is why the node is not ready.
	Problem = "node is shutting down"

	podReason     = "Terminated"
	podMessage    = "Pod was terminated in response to imminent node shutdown."
	refuseReason  = "NodeShutdown"
	refuseMessage = "Pod was rejected as the node is shutting down."
)

const (
	// critical is the least priority of pods that the system needs: Kubernetes'
	// system-cluster-critical.
	critical = int32(2_000_000_000)
	// reserve is how much of a group's time, a fifth at most, its containers do not get: what they
	// ended as has to be told too.
	reserve = 2 * time.Second
	// lookPeriod is how often it is looked whether the pods have ended.
	lookPeriod = 50 * time.Millisecond
)

// Config is what a Shutdown needs; all of it is required.
type Config struct {
	// Period is how long it may take in all, and CriticalPods how much of that, at the end, is for
	// pods that the system needs.
	Period, CriticalPods time.Duration
	// Pods are those that have not ended.
	Pods func() []*corev1.Pod
	// Kill ends a pod, and Ended says whether the API was told that it has.
	Kill   func(pod *corev1.Pod, kill podworkers.Kill)
	Ended  func(pod *corev1.Pod) bool
	Logger *slog.Logger
}

// Shutdown is the end of a node.
type Shutdown struct {
	cfg   Config
	begun atomic.Bool
}

// New makes a Shutdown that has not begun.
func New(cfg Config) *Shutdown { return &Shutdown{cfg: cfg} }

// Begin has the node be no more for pods.
func (s *Shutdown) Begin() { s.begun.Store(true) }

// Begun says whether it was.
func (s *Shutdown) Begun() bool { return s.begun.Load() }

// Refuse says why the node takes no new pod; nil before Begin.
func (s *Shutdown) Refuse() *admit.Rejection {
	if !s.Begun() {
		return nil
	}
	return &admit.Rejection{Reason: refuseReason, Message: refuseMessage}
}

// EndPods ends the pods, and returns when all have, when the time is over, or when ctx ends.
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
			continue // Nobody waits for nothing.
		}
		count := len(left)
		left = s.endGroup(ctx, left, group.period)
		s.cfg.Logger.Info("shutting down", "done", "pods are ended", "pods", group.name, "count", count, "left", len(left), "took", time.Since(began).Round(time.Millisecond))
		for _, pod := range left {
			s.cfg.Logger.Warn("a pod has not ended in time", "pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID, "period", group.period)
		}
	}
}

// endGroup ends some pods within a time, and gives those that have not.
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

// kill is how a pod is ended that has at most so long; less if it wants less.
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
