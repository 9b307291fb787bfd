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
	"github.com/garboard/garboard/services/nodeagent/internal/join"
)

// ClusterFile is the kubeconfig that Join writes, in the folder pki of the data folder: the
// bootstrap kubeconfig without its credentials.
const ClusterFile = "cluster.kubeconfig"

// joining returns the configuration by which the agent obtains its certificate.
func (c *Config) joining() join.Config {
	cfg := join.Config{NodeName: c.NodeName, Dir: filepath.Join(c.DataDir, "pki"), Kubeconfig: c.Bootstrap, Logger: c.Service.Logger}
	if len(c.APIServers) > 0 {
		cfg.Route = func(config *rest.Config) (*rest.Config, func(), error) {
			return client.Failover(config, c.APIServers, c.Service.Logger)
		}
	}
	return cfg
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
	if a.joiner == nil {
		return lifecycle.Stage{}
	}
	end := func() {}
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
	api, end = client.Measured(api, cfg.Registerer), func() {}
	if len(a.cfg.APIServers) > 0 {
		if api, end, err = client.Failover(api, a.cfg.APIServers, cfg.Logger); err != nil {
			return nil, err
		}
	}
	nats := withCertificate(cfg.Bus, a.joiner.Path(), ca)
	metric.Register(cfg.Registerer, metric.Certificates(map[string][]byte{a.cfg.Bootstrap: ca}, a.joiner.Path(), nats.CAFile))
	a.shell.Reach(api, nats, a.joiner.Path())
	return end, nil
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
	if cfg.CAFile == "" && len(cfg.CA) == 0 && slices.ContainsFunc(cfg.URLs, func(url string) bool { return strings.HasPrefix(url, "tls://") }) {
		cfg.CA = ca
	}
	return cfg
}
