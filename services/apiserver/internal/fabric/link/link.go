// Package link links an apiserver to NATS: it connects, and then plays the apiserver's roles there.
// It publishes changes, answers informers and readers of history, admits clients, serves requests,
// and reports the apiserver's state.
package link

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bushttp/serve"
	"github.com/garboard/garboard/libs/bus/callout"
	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/libs/report"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/trace"
	"github.com/garboard/garboard/libs/trace/propagate"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/busauth"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/publish"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/replay"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/respond"
	"github.com/garboard/garboard/services/apiserver/internal/http/access"
	"github.com/garboard/garboard/services/apiserver/internal/http/audit"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/server/config"
	"github.com/garboard/garboard/services/apiserver/internal/server/pki"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// reconnectDelay bounds how long an apiserver waits before it tries NATS again: no other client is
// admitted before an apiserver is back.
const reconnectDelay = 500 * time.Millisecond

// openBusRetry is how often to retry a NATS that admits any client.
const openBusRetry = 10 * time.Second

// admitPatience bounds how long the API waits for NATS to admit clients: it is served without NATS.
const admitPatience = time.Second

// Config configures a Link. Every field but Audit and Trace is required.
type Config struct {
	// Server is the apiserver's configuration, complete.
	Server config.Config
	// Table, Store and Feeds are what is published and answered.
	Table *scheme.Table
	Store *store.Store
	Feeds *feed.Feeds
	// Users authenticates the bus' clients, Access decides what they may do, and Audit records it;
	// nil records nothing.
	Users  *authn.Authenticator
	Access *access.Access
	Audit  *audit.Auditor
	// Self is the apiserver's report about itself.
	Self report.Self
	// Trace records hops; may be nil.
	Trace      *trace.Recorder
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Link is an apiserver's link to NATS.
type Link struct {
	cfg     Config
	conn    atomic.Pointer[bus.Conn] // nil until NATS is reached
	reached chan struct{}            // closed when NATS is reached
	admits  chan struct{}            // closed when clients are admitted
}

// New returns a link. It connects to nothing.
func New(cfg Config) *Link {
	return &Link{cfg: cfg, reached: make(chan struct{}), admits: make(chan struct{})}
}

// Conn returns the connection to NATS; nil until NATS is reached.
func (l *Link) Conn() *bus.Conn { return l.conn.Load() }

// Run connects to NATS, however long that takes, and then publishes and responds there until ctx
// ends.
func (l *Link) Run(ctx context.Context) error {
	keys, err := busKeys(l.cfg.Server)
	if err != nil {
		return err
	}
	cfg := l.cfg.Server.Bus.NATS
	if keys != nil && cfg.User == "" && len(cfg.Seed) == 0 {
		cfg.Seed = keys.UserSeed()
	}
	cfg.MaxReconnectDelay = reconnectDelay
	conn, err := l.connect(ctx, cfg)
	if err != nil || conn == nil {
		return err
	}
	defer conn.Close()
	l.conn.Store(conn)
	close(l.reached)
	l.measureLogs(conn)
	publisher := publish.New(publish.Config{
		Parts: parts(l.cfg.Server.Bus.Log, l.cfg.Store, l.cfg.Table, conn), Table: l.cfg.Table, Feeds: l.cfg.Feeds, Bus: conn, Peers: conn,
		Logger: l.cfg.Logger, Registerer: l.cfg.Registerer, Trace: l.cfg.Trace,
	})
	answers := respond.Config{
		Storage: l.cfg.Store, Feeds: l.cfg.Feeds, Table: l.cfg.Table, Bus: conn, Logger: l.cfg.Logger, Registerer: l.cfg.Registerer,
	}
	history := replay.Config{
		Table: l.cfg.Table, LogOf: logOf(l.cfg.Store, conn), Bus: conn, Logger: l.cfg.Logger, Registerer: l.cfg.Registerer,
	}
	group, ctx := errgroup.WithContext(ctx)
	if l.cfg.Server.Bus.Open {
		l.cfg.Logger.Warn("NATS does not authenticate its clients: any client can read everything and forge watch messages")
		close(l.admits)
	} else {
		decider := l.decider()
		answers.Authorize, history.Authorize = decider.Authorize, decider.Authorize
		if l.cfg.Audit != nil {
			answers.Audit, history.Audit = decider.Audited, decider.Audited
		}
		group.Go(func() error { return l.evict(ctx, keys, cfg, decider) })
		group.Go(func() error {
			// Before the roles exist, no client could be admitted with all of its rights.
			select {
			case <-l.cfg.Access.RolesReady():
			case <-ctx.Done():
				return nil
			}
			return callout.Serve(ctx, callout.Config{
				Conn: conn, Keys: keys, Decide: decider.Decide, Logger: l.cfg.Logger, Serving: func() { close(l.admits) },
			})
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
	group.Go(func() error { return report.Serve(ctx, conn, l.cfg.Self) })
	l.cfg.Trace.OnWriting(func(note trace.Note) {
		if err := propagate.Publish(ctx, conn, note); err != nil {
			l.cfg.Logger.DebugContext(ctx, "a trace has a gap", "err", err)
		}
	})
	group.Go(func() error { return propagate.Listen(ctx, conn, l.cfg.Trace) })
	return group.Wait()
}

// evict ends the connections of clients whose credential is not valid any more, until ctx ends.
func (l *Link) evict(ctx context.Context, keys *callout.Keys, cfg bus.Config, decider *busauth.Decider) error {
	if keys == nil {
		return nil
	}
	cfg.User, cfg.Password, cfg.Token, cfg.TokenFile, cfg.Seed, cfg.Registerer = "", "", "", "", keys.SystemSeed(), nil
	conn, err := bus.Dial(cfg)
	if err != nil {
		return err
	}
	defer conn.Close()
	// What a credential depends on is read by then.
	return callout.Evict(ctx, callout.EvictConfig{Conn: conn, Check: decider.Revoked, Logger: l.cfg.Logger})
}

// Admit waits until NATS admits clients, if NATS was reached. The bootstrap roles must exist. A
// client that comes too early is refused, and would try again only seconds later.
func (l *Link) Admit(ctx context.Context) error {
	if l.Conn() == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, admitPatience)
	defer cancel()
	select {
	case <-l.admits:
	case <-ctx.Done():
	}
	return nil
}

// decider returns what decides about the bus' clients.
func (l *Link) decider() *busauth.Decider {
	return busauth.New(busauth.Config{
		Authenticator: l.cfg.Users, Authorizer: l.cfg.Access.Authorizer(), Roles: l.cfg.Access.Roles(), Table: l.cfg.Table,
		Accounts: l.cfg.Access.Objects().ServiceAccount, Life: l.cfg.Server.Bus.Life,
		NodeLife: l.cfg.Server.Bus.NodeLife, Logger: l.cfg.Logger,
		Audit: l.cfg.Audit, Registerer: l.cfg.Registerer,
	})
}

// Serve serves requests that come over NATS like those that come over HTTPS, once NATS was reached.
// After ctx ends, it lets the requests in flight finish, for at most patience.
func (l *Link) Serve(ctx context.Context, handler http.Handler, patience time.Duration) error {
	select {
	case <-l.reached:
	case <-ctx.Done():
		return nil
	}
	cfg := serve.Config{Conn: l.conn.Load(), Handler: handler, Drain: patience, Logger: l.cfg.Logger, Registerer: l.cfg.Registerer}
	if !l.cfg.Server.Bus.Open {
		cfg.Handler, cfg.Few = identified(handler), bootstraps
	}
	return serve.New(cfg).Run(ctx)
}

// identified passes requests on with the client that NATS let in, which is the user of a request without
// a credential.
func identified(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if caller, ok := serve.CallerOf(r.Context()); ok {
			if client, err := busauth.Client(caller.Identity); err == nil {
				r = r.WithContext(authn.WithConnection(r.Context(), client))
			}
		}
		handler.ServeHTTP(w, r)
	})
}

// bootstraps reports whether a client has only a bootstrap token.
func bootstraps(asker subject.Client) bool {
	client, err := busauth.Client(asker.Identity)
	return err == nil && busauth.Bootstraps(client.User)
}

// busKeys returns the apiservers' keys for NATS, or nil if there are none and none are needed.
func busKeys(c config.Config) (*callout.Keys, error) {
	if !c.Serving.ReadsKeys() {
		return pki.OpenBus(c.Serving.CertDir)
	}
	keys, err := pki.ReadBus(c.Serving.CertDir)
	if c.Bus.Open && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return keys, err
}

// connect connects to a NATS that authenticates its clients, unless any NATS will do. It returns
// nil if ctx ends first.
func (l *Link) connect(ctx context.Context, cfg bus.Config) (*bus.Conn, error) {
	for {
		conn, err := bus.Connect(ctx, cfg)
		if err != nil {
			if ctx.Err() != nil {
				return nil, nil
			}
			return nil, err
		}
		if l.cfg.Server.Bus.Open || conn.AuthRequired() {
			return conn, nil
		}
		conn.Close()
		l.cfg.Logger.Error("NATS admits any client and is not used: have it include this file of the certificate directory, or allow this with --bus-auth=false",
			"servers", cfg.Servers(), "file", pki.BusConfigFile, "directory", l.cfg.Server.Serving.CertDir)
		if !backoff.Sleep(ctx, openBusRetry) {
			return nil, nil
		}
	}
}
