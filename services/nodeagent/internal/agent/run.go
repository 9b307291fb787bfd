package agent

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/lifecycle"
	"github.com/garboard/garboard/services/nodeagent/internal/node"
	"github.com/garboard/garboard/services/nodeagent/internal/serving"
	"github.com/garboard/garboard/services/nodeagent/internal/syncloop"
)

// Run runs the agent until ctx ends and returns when everything it started has ended.
func (a *Agent) Run(ctx context.Context) error {
	return lifecycle.Run(ctx, a.cfg.Logger,
		// Events of the last steps are still written after the rest has ended.
		lifecycle.Stage{Name: "events", Run: a.events.Run},
		// No pod starts before the runtime is known to be ready.
		lifecycle.Stage{Name: "runtime check", Start: func(ctx context.Context) error {
			a.checkRuntime(ctx)
			return nil
		}, Run: a.watchRuntime},
		lifecycle.Stage{Name: "pods", Run: a.run},
	)
}

// run follows the node's pods and runs them until ctx ends.
func (a *Agent) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	changes := make(chan syncloop.Change)
	registration, err := informer.ForView[*corev1.Pod](a.factory, informer.View{Scope: a.cfg.NodeName}).
		AddEventHandler(syncloop.Handler(ctx, changes))
	if err != nil {
		return fmt.Errorf("following the node's pods: %w", err)
	}
	a.mu.Lock()
	a.synced = registration
	a.mu.Unlock()
	loop := syncloop.New(syncloop.Config{
		Changes: changes, Ready: registration.HasSynced, Lifecycle: a.pleg.Changed(), Probes: a.prober.Changed(),
		Pods: a.pods, Workers: a.workers, Status: a.status, Node: a.node.Object, FetchNode: a.node.Fetch,
		Refuse: a.shutdown.Refuse, Sysctls: a.sysctls,
		AppArmor: a.cfg.Simulated || node.AppArmor(),
		Reject:   a.lifecycle.Reject, Housekeep: a.housekeep, Logger: a.cfg.Logger,
	})
	a.mu.Lock()
	a.loop = loop
	a.mu.Unlock()
	group.Go(func() error { return a.pleg.Run(ctx) })
	group.Go(func() error { return a.status.Run(ctx) })
	group.Go(func() error { return a.prober.Run(ctx) })
	group.Go(func() error { return a.workers.Run(ctx) })
	group.Go(func() error { return loop.Run(ctx) })
	group.Go(func() error { return a.node.Run(ctx) })
	group.Go(func() error { return a.logs.Run(ctx) })
	group.Go(func() error { return a.stats.Run(ctx) })
	group.Go(func() error { return a.folders.Run(ctx) })
	group.Go(func() error { return a.factory.Run(ctx) })
	handler := a.handler()
	if a.cfg.Serve != nil {
		group.Go(func() error { return a.cfg.Serve(ctx, handler) })
	}
	if port := a.cfg.Port; port.Address != "" {
		port.NodeName, port.NodeIP, port.Handler, port.Client, port.Logger = a.cfg.NodeName, a.cfg.NodeIP, handler, a.cfg.Client, a.cfg.Logger
		group.Go(func() error { return serving.New(port).Run(ctx) })
	}
	return group.Wait()
}
