// Package fleet runs many simulated nodes in one process, each with an identity of its own that it
// got by joining.
package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/services/nodeagent"
)

// Label is on every node of a fleet.
const Label = "outage-simulated"

// Config says how many nodes there are and how they join.
type Config struct {
	// Nodes is how many.
	Nodes int
	// Bootstrap is a kubeconfig with a bootstrap token, Server the API's URL in place of its own.
	Bootstrap, Server string
	// Bus tells how to reach NATS; identities are the nodes' own.
	Bus bus.Config
	// Dir holds what the nodes keep.
	Dir string
	// Logger takes their logs.
	Logger *slog.Logger
}

// Fleet is simulated nodes.
type Fleet struct{ agents []*nodeagent.Agent }

// New makes a fleet. It connects to nothing.
func New(cfg Config) (*Fleet, error) {
	f := &Fleet{}
	for i := range cfg.Nodes {
		name := Name(i)
		nats := cfg.Bus
		nats.Name = name
		agent, err := nodeagent.New(nodeagent.Config{
			NodeName: name, Bootstrap: cfg.Bootstrap, APIServers: []string{cfg.Server}, Bus: nats, Transport: client.TransportHTTP,
			Runtime: nodeagent.RuntimeConfig{Endpoint: nodeagent.SimulatedRuntime}, DataDir: filepath.Join(cfg.Dir, name),
			Labels: map[string]string{Label: "yes"}, Logger: cfg.Logger.With("node", name),
		})
		if err != nil {
			return nil, fmt.Errorf("making the simulated node %s: %w", name, err)
		}
		f.agents = append(f.agents, agent)
	}
	return f, nil
}

// Name is that of a node.
func Name(i int) string { return fmt.Sprintf("simulated-%03d", i) }

// Run runs the nodes until ctx ends, or one of them fails.
func (f *Fleet) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, agent := range f.agents {
		group.Go(func() error { return agent.Run(ctx) })
	}
	return group.Wait()
}
