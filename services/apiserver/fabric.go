package apiserver

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/callout"
	"github.com/garboard/garboard/libs/report"
	"github.com/garboard/garboard/libs/trace"
	"github.com/garboard/garboard/libs/trace/propagate"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/busauth"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/publish"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/replay"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/respond"
	"github.com/garboard/garboard/services/apiserver/internal/server/pki"
)

// busReconnectDelay bounds how long an apiserver waits before it tries NATS again: no other client
// is admitted before an apiserver is back.
const busReconnectDelay = 500 * time.Millisecond

// openBusRetry is how often to retry a NATS that admits any client.
const openBusRetry = 10 * time.Second

// BusAuth returns what a NATS server needs to admit only clients that the apiservers admit. certDir
// is the apiservers' Config.CertDir; missing keys are created. The directory's nats-auth.conf holds
// the same for a nats-server.
func BusAuth(certDir string) (*callout.Auth, error) {
	keys, err := pki.OpenBus(certDir)
	if err != nil {
		return nil, err
	}
	return keys.Auth(), nil
}

// BusTLS returns the certificate for a NATS server at a host, and the authority whose client
// certificates it accepts, the same as the API's. certDir is as in BusAuth.
func BusTLS(certDir, host string) (*callout.TLS, error) {
	hosts := []string{"localhost", "127.0.0.1", "::1"}
	if ip, err := netip.ParseAddr(host); err != nil || !ip.IsUnspecified() {
		hosts = append(hosts, host)
	} else if own, err := ownAddresses(); err == nil {
		for _, address := range own {
			hosts = append(hosts, address.String())
		}
	}
	if _, err := pki.Open(certDir, hosts); err != nil {
		return nil, err
	}
	cert, key := pki.ServingFiles(certDir)
	return &callout.TLS{CertFile: cert, KeyFile: key, ClientCAFile: filepath.Join(certDir, pki.CAFile)}, nil
}

// runBus connects to NATS, however long that takes, and then publishes and responds there until ctx
// ends.
func (p *plane) runBus(ctx context.Context) error {
	keys, err := p.cfg.busKeys()
	if err != nil {
		return err
	}
	cfg := p.cfg.Bus
	if keys != nil && cfg.User == "" && len(cfg.Seed) == 0 {
		cfg.Seed = keys.UserSeed()
	}
	cfg.MaxReconnectDelay = busReconnectDelay
	conn, err := p.connect(ctx, cfg)
	if err != nil || conn == nil {
		return err
	}
	defer conn.Close()
	p.conn.Store(conn)
	close(p.reached)
	p.measureLogs(conn)
	publisher := publish.New(publish.Config{
		Parts: p.cfg.Log.parts(p.store, p.table, conn), Table: p.table, Feeds: p.feeds, Bus: conn, Peers: conn,
		Logger: p.cfg.Logger, Registerer: p.cfg.Registerer, Trace: p.cfg.Trace,
	})
	answers := respond.Config{
		Truth: p.store, Feeds: p.feeds, Table: p.table, Bus: conn, Logger: p.cfg.Logger, Registerer: p.cfg.Registerer,
	}
	history := replay.Config{
		Table: p.table, LogOf: logOf(p.store, conn), Bus: conn, Logger: p.cfg.Logger, Registerer: p.cfg.Registerer,
	}
	group, ctx := errgroup.WithContext(ctx)
	if p.cfg.OpenBus {
		p.cfg.Logger.Warn("NATS does not authenticate its clients: any client can read everything and forge watch messages")
	} else {
		decider := busauth.New(busauth.Config{
			Authenticator: p.users, Authorizer: p.access.authorizer, Roles: p.access.roles, Table: p.table,
			Accounts: bound{p}.ServiceAccount, Life: p.cfg.BusLife, Logger: p.cfg.Logger,
			Audit: p.auditor, Registerer: p.cfg.Registerer,
		})
		answers.Authorize, history.Authorize = decider.Authorize, decider.Authorize
		if p.auditor != nil {
			answers.Audit, history.Audit = decider.Audited, decider.Audited
		}
		group.Go(func() error {
			// Before the roles exist, no client could be admitted with all of its rights.
			select {
			case <-p.access.rolesReady:
			case <-ctx.Done():
				return nil
			}
			return callout.Serve(ctx, callout.Config{Conn: conn, Keys: keys, Decide: decider.Decide, Logger: p.cfg.Logger})
		})
	}
	responder := respond.New(answers)
	group.Go(func() error {
		if err := publisher.Witness(ctx); err != nil {
			return err
		}
		group.Go(func() error { return publisher.Run(ctx) })
		return responder.Run(ctx)
	})
	group.Go(func() error { return replay.New(history).Run(ctx) })
	group.Go(func() error { return report.Serve(ctx, conn, p.self()) })
	p.cfg.Trace.Tell(func(note trace.Note) {
		if err := propagate.Tell(ctx, conn, note); err != nil {
			p.cfg.Logger.DebugContext(ctx, "a trace has a gap", "err", err)
		}
	})
	group.Go(func() error { return propagate.Listen(ctx, conn, p.cfg.Trace) })
	return group.Wait()
}

// busKeys returns the apiservers' keys for NATS, or nil if there are none and none are needed.
func (c Config) busKeys() (*callout.Keys, error) {
	if !c.readsKeys() {
		return pki.OpenBus(c.CertDir)
	}
	keys, err := pki.ReadBus(c.CertDir)
	if c.OpenBus && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return keys, err
}

// connect connects to a NATS that authenticates its clients, unless any NATS will do. It returns
// nil if ctx ends first.
func (p *plane) connect(ctx context.Context, cfg bus.Config) (*bus.Conn, error) {
	for {
		conn, err := bus.Connect(ctx, cfg)
		if err != nil {
			return nil, ended(ctx, err)
		}
		if p.cfg.OpenBus || conn.AuthRequired() {
			return conn, nil
		}
		conn.Close()
		p.cfg.Logger.Error("NATS admits any client and is not used: have it include this file of the certificate directory, or allow this with --bus-auth=false",
			"servers", cfg.Servers(), "file", pki.BusConfigFile, "directory", p.cfg.CertDir)
		if !backoff.Sleep(ctx, openBusRetry) {
			return nil, nil
		}
	}
}
