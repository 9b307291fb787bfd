// Package network runs the network parts of a node agent: the pod network, the proxy of Services, and the DNS
// server. They share an identity of their own, a service account that may read Services, EndpointSlices and
// Nodes, and with it one connection and one set of informers. Each part can be switched off.
package network

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/service"
	"github.com/garboard/garboard/services/nodeagent/internal/networktoken"
	"github.com/garboard/garboard/services/nodeagent/internal/podnetwork"
)

// Config configures the parts of a node.
type Config struct {
	NodeName string
	// Address is the node's address.
	Address netip.Addr
	// Client acts as the node; it obtains the parts' token. Node returns the UID of the node's Node; empty
	// until it is registered.
	Client client.Interface
	Node   func() types.UID
	// TokenFile is the file that holds the token, which Shell presents.
	TokenFile string
	// Shell connects the parts to the plane. Its connections are not open yet.
	Shell *service.Shell
	// PodNetwork has the node connect its pods; see package podnetwork.
	PodNetwork bool
	Mode       podnetwork.Mode
	CNIConfDir string
	// Event records an Event about the node.
	Event      func(eventType, reason, message string)
	DataDir    string
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Network is the network parts of a node.
type Network struct {
	cfg Config
}

// New returns the parts. It starts nothing.
func New(cfg Config) *Network { return &Network{cfg: cfg} }

// Run runs the parts that are switched on until ctx ends, and removes what those that are switched off have left.
func (n *Network) Run(ctx context.Context) error {
	if !n.cfg.PodNetwork {
		if err := podnetwork.Remove(ctx, n.cfg.CNIConfDir, ""); err != nil && ctx.Err() == nil {
			n.cfg.Logger.Warn("removing the pod network, which is switched off, failed", "err", err)
		}
		<-ctx.Done()
		return nil
	}
	tokens := networktoken.New(networktoken.Config{
		NodeName: n.cfg.NodeName, Client: n.cfg.Client, Node: n.cfg.Node, Path: n.cfg.TokenFile, Logger: n.cfg.Logger,
	})
	if err := tokens.Obtain(ctx); err != nil {
		return nil // ctx has ended.
	}
	connections := n.cfg.Shell.Connections()
	if err := connections.Start(ctx); err != nil {
		return fmt.Errorf("connecting the network parts: %w", err)
	}
	err := n.run(ctx, tokens)
	return errors.Join(err, connections.End(context.WithoutCancel(ctx)))
}

func (n *Network) run(ctx context.Context, tokens *networktoken.Source) error {
	factory := n.cfg.Shell.NewInformers()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return tokens.Run(ctx) })
	if n.cfg.PodNetwork {
		pods := podnetwork.New(podnetwork.Config{
			NodeName: n.cfg.NodeName, Address: n.cfg.Address, Nodes: factory, Mode: n.cfg.Mode, ConfDir: n.cfg.CNIConfDir,
			DataDir: filepath.Join(n.cfg.DataDir, "cni"), Event: n.cfg.Event, Logger: n.cfg.Logger, Registerer: n.cfg.Registerer,
		})
		group.Go(func() error { return pods.Run(ctx) })
	}
	group.Go(func() error { return factory.Run(ctx) })
	return group.Wait()
}
