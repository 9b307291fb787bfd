package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"

	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/lifecycle"
	"github.com/garboard/garboard/libs/report"
	"github.com/garboard/garboard/libs/service"
	"github.com/garboard/garboard/services/nodeagent/internal/network"
	"github.com/garboard/garboard/services/nodeagent/internal/podnetwork"
)

// NetworkConfig configures the network parts of a node agent. They need root, and have no effect under the
// simulated runtime.
type NetworkConfig struct {
	// PodNetwork gives pods addresses from the Node's pod CIDRs and connects them with those of other nodes.
	PodNetwork bool
	// PodNetworkMode is how: "auto" (routes on the same link, VXLAN otherwise), "routes" or "vxlan"; "auto" if
	// empty.
	PodNetworkMode string
	// CNIConfDir is the folder in which the container runtime looks for CNI configurations; DefaultCNIConfDir
	// if empty.
	CNIConfDir string
}

// DefaultCNIConfDir is the folder in which container runtimes look for CNI configurations.
const DefaultCNIConfDir = podnetwork.DefaultConfDir

// complete sets defaults and returns what is wrong.
func (c *NetworkConfig) complete() error {
	if c.PodNetworkMode == "" {
		c.PodNetworkMode = string(podnetwork.Auto)
	}
	if c.CNIConfDir == "" {
		c.CNIConfDir = DefaultCNIConfDir
	}
	faults := []error{podnetwork.Mode(c.PodNetworkMode).Check()}
	if !filepath.IsAbs(c.CNIConfDir) {
		faults = append(faults, fmt.Errorf("the folder of CNI configurations, %q, is not an absolute path", c.CNIConfDir))
	}
	return errors.Join(faults...)
}

// networkToken is the file of the token that the network parts present.
func (c *Config) networkToken() string { return filepath.Join(c.DataDir, "network", "token") }

// networkReach sets how the network parts reach the plane: as the agent does, and by their own token in place
// of the agent's credential. api and nats are how the agent does, without fail-over. The caller must call end.
func (a *Agent) networkReach(api *rest.Config, nats bus.Config) (end func(), err error) {
	own := rest.AnonymousClientConfig(api)
	own.BearerTokenFile, end = a.cfg.networkToken(), func() {}
	if len(a.cfg.APIServers) > 0 {
		if own, end, err = client.Failover(own, a.cfg.APIServers, a.cfg.Service.Logger); err != nil {
			return nil, err
		}
	}
	// NATS may want a certificate of everyone. The apiservers take the token for the client's credential.
	nats.Seed, nats.User, nats.Password, nats.Token, nats.TokenFile = nil, "", "", "", a.cfg.networkToken()
	nats.Registerer = nil // The agent's own connection is measured.
	a.network.Reach(own, nats, "")
	return end, nil
}

// newNetworkShell returns the shell of the network parts.
func newNetworkShell(cfg service.Config) *service.Shell {
	return service.New(cfg, service.Role{
		Name: report.NodeAgent, Component: "kube-proxy", Unready: "the network parts have not started yet",
	})
}

// networkParts returns the stage that runs the network parts.
func (a *Agent) networkParts() lifecycle.Stage {
	if a.cfg.Runtime.Endpoint == SimulatedRuntime {
		return lifecycle.Stage{}
	}
	return lifecycle.Stage{Name: "network", Run: func(ctx context.Context) error {
		address, err := netip.ParseAddr(a.inner.Address())
		if err != nil {
			return fmt.Errorf("starting the network parts: the node's address: %w", err)
		}
		cfg := a.cfg.Service
		return network.New(network.Config{
			NodeName: a.cfg.NodeName, Address: address.Unmap(), Client: a.shell.Client(), Node: a.inner.UID,
			TokenFile: a.cfg.networkToken(), Shell: a.network,
			PodNetwork: a.cfg.Network.PodNetwork, Mode: podnetwork.Mode(a.cfg.Network.PodNetworkMode), CNIConfDir: a.cfg.Network.CNIConfDir,
			Event: a.inner.Event, DataDir: filepath.Join(a.cfg.DataDir, "network"), Logger: cfg.Logger, Registerer: cfg.Registerer,
		}).Run(ctx)
	}}
}
