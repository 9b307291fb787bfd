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

// newShutdown is how the node ends, if it does with its agent.
func (a *Agent) newShutdown() *shutdown.Shutdown {
	return shutdown.New(shutdown.Config{
		Period: a.cfg.ShutdownGrace, CriticalPods: a.cfg.ShutdownGraceCritical,
		Pods: a.unended, Kill: a.workers.Kill, Ended: a.status.ToldEnd, Logger: a.cfg.Logger,
	})
}

// unended are the pods that the node has taken and that have not ended.
func (a *Agent) unended() []*corev1.Pod {
	return slices.DeleteFunc(a.pods.List(), func(pod *corev1.Pod) bool { return status.IsTerminal(a.status.Get(pod).Phase) })
}

// Shutdown has the node take no more pods and be not ready, and ends its pods; it returns when
// they have ended, when the time for that is over, or when ctx ends. The agent must be running.
func (a *Agent) Shutdown(ctx context.Context) {
	a.events.Event(a.node.Object(), corev1.EventTypeNormal, "NodeShutdown", "Shutdown manager detected shutdown event")
	a.shutdown.Begin()
	a.node.Poke()
	a.shutdown.EndPods(ctx)
}

// problem says why the node can run no pods, of several reasons all.
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
