package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/lifecycle"
	"github.com/garboard/garboard/libs/metric"
	"github.com/garboard/garboard/libs/pki"
	"github.com/garboard/garboard/libs/service"
	"github.com/garboard/garboard/services/nodeagent/internal/join"
)

// ClusterFile is the kubeconfig that Join writes, in the folder pki of the data folder: the
// bootstrap kubeconfig without its credentials.
const ClusterFile = "cluster.kubeconfig"

// joining returns the configuration by which the agent obtains its certificate.
func (c *Config) joining() join.Config {
	cfg := join.Config{NodeName: c.NodeName, Dir: filepath.Join(c.DataDir, "pki"), Kubeconfig: c.Bootstrap, Logger: c.Service.Logger}
	if c.Service.Transport != client.TransportHTTP && c.Service.Transport != "" {
		cfg.Carry = c.carry
	}
	if len(c.APIServers) > 0 {
		cfg.Route = func(config *rest.Config) (*rest.Config, func(), error) {
			return client.Failover(config, c.APIServers, c.Service.Logger)
		}
	}
	return cfg
}

// carry sends calls over a connection to NATS of their own, which presents the credential that config has:
// the bootstrap token, or the node's certificate of that moment.
func (c *Config) carry(ctx context.Context, config *rest.Config) (carried *rest.Config, end func(), err error) {
	nats := c.Service.Bus
	nats.Registerer = nil // The agent's lasting connection is measured.
	if len(config.CertData) == 0 && len(c.BootstrapServers) > 0 {
		nats.URLs = c.BootstrapServers
	}
	nats = client.BusConfig(config, trusting(nats, config.CAData))
	conn, err := bus.Dial(nats)
	if err != nil {
		return nil, nil, err
	}
	route := client.Route{By: c.Service.Transport, Conn: conn, Certified: client.Certified(config, nats)}
	carried, endCalls, err := client.WithTransport(context.WithoutCancel(ctx), config, route, c.Service.Logger)
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return carried, func() { endCalls(); conn.Close() }, nil
}

// Join obtains the node's certificate if there is none that works, writes ClusterFile and returns.
// It starts no pods. Config.Bootstrap is required. An agent that is then started with ClusterFile as
// its Bootstrap needs no token as long as the certificate is renewed in time, so that the token can
// be taken away before the first pod runs.
func (a *Agent) Join(ctx context.Context) error {
	if a.joiner == nil {
		return errors.New("joining: --join-only needs --bootstrap-kubeconfig")
	}
	if _, _, err := a.joiner.Join(ctx); err != nil {
		return fmt.Errorf("joining: %w", err)
	}
	cluster, err := client.WithoutCredentials(a.cfg.Bootstrap)
	if err != nil {
		return fmt.Errorf("joining: %w", err)
	}
	path := filepath.Join(filepath.Dir(a.joiner.Path()), ClusterFile)
	if err := (pki.Files{}).Write(path, cluster, pki.Secret); err != nil {
		return fmt.Errorf("joining: %w", err)
	}
	a.cfg.Service.Logger.Info("the node has joined", "node", a.cfg.NodeName, "file", path)
	return nil
}

// identity returns the stage that obtains the agent's own certificate and renews it, if the agent is
// to have one.
func (a *Agent) identity() lifecycle.Stage {
	end := func() {}
	if a.joiner == nil {
		return lifecycle.Stage{
			Name: "credentials",
			Start: func(context.Context) (err error) {
				end, err = a.networkReach(a.cfg.Service.API, client.BusConfig(a.cfg.Service.API, a.cfg.Service.Bus))
				return err
			},
			End: func(context.Context) error { end(); return nil },
		}
	}
	return lifecycle.Stage{
		Name: "certificate",
		Start: func(ctx context.Context) (err error) {
			end, err = a.identify(ctx)
			return err
		},
		Run: func(ctx context.Context) error {
			defer end()
			return a.joiner.Run(ctx)
		},
	}
}

// identify waits until the node has a certificate, and has the connections present it. The caller
// must call end.
func (a *Agent) identify(ctx context.Context) (end func(), err error) {
	cfg := a.cfg.Service
	api, ca, err := a.joiner.Join(ctx)
	if err != nil {
		return nil, err
	}
	nats := withCertificate(cfg.Bus, a.joiner.Path(), ca)
	endNetwork, err := a.networkReach(api, nats)
	if err != nil {
		return nil, err
	}
	api, end = client.Measured(api, cfg.Registerer), endNetwork
	if len(a.cfg.APIServers) > 0 {
		var endAgent func()
		if api, endAgent, err = client.Failover(api, a.cfg.APIServers, cfg.Logger); err != nil {
			endNetwork()
			return nil, err
		}
		end = func() { endAgent(); endNetwork() }
	}
	metric.Register(cfg.Registerer, metric.Certificates(map[string][]byte{a.cfg.Bootstrap: ca}, a.joiner.Path(), nats.CAFile))
	a.shell.Reach(api, nats, a.joiner.Path())
	return end, nil
}

// renewed has NATS see the node's new certificate at once.
func (a *Agent) renewed() {
	for _, shell := range []*service.Shell{a.shell, a.network} {
		if conn := shell.Conn(); conn != nil {
			conn.Reconnect()
		}
	}
}

// because returns the joiner's explanation of why the apiserver does not answer, if it has one,
// instead of err.
func (a *Agent) because(ctx context.Context, err error) error {
	if err == nil || a.joiner == nil {
		return err
	}
	if trouble := a.joiner.Trouble(ctx); trouble != nil {
		return trouble
	}
	return err
}

// withCertificate presents the node's certificate to NATS unless cfg has another credential. Over
// TLS it also trusts the control plane's CA unless cfg has another one.
func withCertificate(cfg bus.Config, path string, ca []byte) bus.Config {
	if !cfg.HasCredentials() {
		cfg.CertFile, cfg.KeyFile = path, path
	}
	return trusting(cfg, ca)
}

// trusting trusts the control plane's CA over TLS unless cfg has another one.
func trusting(cfg bus.Config, ca []byte) bus.Config {
	encrypted := func(url string) bool { return strings.HasPrefix(url, "tls://") || strings.HasPrefix(url, "wss://") }
	if cfg.CAFile == "" && len(cfg.CA) == 0 && slices.ContainsFunc(cfg.URLs, encrypted) {
		cfg.CA = ca
	}
	return cfg
}
