package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/shutdown"
	"github.com/garboard/garboard/services/nodeagent/internal/status"
)

// newShutdown returns the graceful shutdown of this node.
func (a *Agent) newShutdown() *shutdown.Shutdown {
	return shutdown.New(shutdown.Config{
		Period: a.cfg.ShutdownGrace, CriticalPods: a.cfg.ShutdownGraceCritical,
		Pods: a.unended, Kill: a.workers.Kill, Ended: a.status.EndReported, Logger: a.cfg.Logger,
	})
}

// unended returns the node's pods that have not reached a terminal phase.
func (a *Agent) unended() []*corev1.Pod {
	return slices.DeleteFunc(a.pods.List(), func(pod *corev1.Pod) bool { return status.IsTerminal(a.status.Get(pod).Phase) })
}

// Shutdown makes the node not ready, rejects new pods and terminates the node's pods. It returns
// when they have terminated, when the grace period is over, or when ctx ends. The agent must be
// running.
func (a *Agent) Shutdown(ctx context.Context) {
	a.events.Event(a.node.Object(), corev1.EventTypeNormal, "NodeShutdown", "Shutdown manager detected shutdown event")
	a.shutdown.Begin()
	a.node.Poke()
	a.shutdown.EndPods(ctx)
}

// problem returns every reason why the node cannot run pods; nil when it can.
func (a *Agent) problem(ctx context.Context) error {
	err := a.ready(ctx)
	switch {
	case !a.shutdown.Begun():
		return err
	case err == nil:
		return errors.New(shutdown.Problem)
	}
	return fmt.Errorf("[%w, %s]", err, shutdown.Problem)
}
