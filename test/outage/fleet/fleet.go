// Package fleet runs many simulated nodes in one process, each with its own identity, which it
// obtained by joining.
package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/service"
	"github.com/garboard/garboard/services/nodeagent"
)

// Label is set on every node of a fleet.
const Label = "outage-simulated"

// Config is the configuration of a fleet.
type Config struct {
	// Nodes is the number of nodes.
	Nodes int
	// Bootstrap is a kubeconfig with a bootstrap token; Server is the API's URL, which replaces the
	// one in it.
	Bootstrap, Server string
	// Bus is the configuration for NATS; each node uses its own identity.
	Bus bus.Config
	// Dir is the folder for the nodes' data.
	Dir string
	// Logger receives the nodes' logs.
	Logger *slog.Logger
}

// Fleet is a group of simulated nodes.
type Fleet struct{ agents []*nodeagent.Agent }

// New creates a fleet. It connects to nothing.
func New(cfg Config) (*Fleet, error) {
	f := &Fleet{}
	for i := range cfg.Nodes {
		name := Name(i)
		nats := cfg.Bus
		nats.Name = name
		agent, err := nodeagent.New(nodeagent.Config{
			NodeName: name, Bootstrap: cfg.Bootstrap, APIServers: []string{cfg.Server},
			Service: service.Config{Bus: nats, Transport: client.TransportHTTP, Logger: cfg.Logger.With("node", name)},
			Runtime: nodeagent.RuntimeConfig{Endpoint: nodeagent.SimulatedRuntime}, DataDir: filepath.Join(cfg.Dir, name),
			Labels: map[string]string{Label: "yes"},
		})
		if err != nil {
			return nil, fmt.Errorf("creating the simulated node %s: %w", name, err)
		}
		f.agents = append(f.agents, agent)
	}
	return f, nil
}

// Name returns the name of a node.
func Name(i int) string { return fmt.Sprintf("simulated-%03d", i) }

// Run runs the nodes until ctx ends, or one of them fails.
func (f *Fleet) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, agent := range f.agents {
		group.Go(func() error { return agent.Run(ctx) })
	}
	return group.Wait()
}
