package bus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"
)

// inboxRoot is the first tokens of every reply subject. Responders answer nowhere else, so
// that nobody can make them speak at a subject of his choice.
const inboxRoot = "_INBOX."

// Delays between two attempts at the list of servers.
const (
	minReconnectDelay = 50 * time.Millisecond
	maxReconnectDelay = 5 * time.Second
)

// drainTimeout bounds how long Close waits for handlers and for what is still to be sent.
const drainTimeout = 5 * time.Second

// connectTimeout is how long a server may take to let a client in.
const connectTimeout = 10 * time.Second

// A server that is stopped, not dead, keeps its connections: only pings without an answer tell. It
// is left for another after the ping that follows pingsUnanswered ones, some ten seconds.
const (
	pingInterval    = 3 * time.Second
	pingsUnanswered = 2
)

// ErrDisconnected says that there is no server at the moment: nothing was sent. The
// connection goes on trying by itself.
var ErrDisconnected = errors.New("not connected to NATS")

// Conn is a connection to NATS that comes back by itself, for ever. It may be used from any
// goroutine.
type Conn struct {
	nc      *nats.Conn
	name    string
	servers string // for people
	// inbox begins all subjects at which answers are taken.
	inbox   string
	self    *self
	logger  *slog.Logger
	metrics *metrics
	timing  streamTiming
	first   chan struct{} // closed when there was a server for the first time
	up      chan struct{} // gets a value when there is a server again
	closed  chan struct{}
	ended   chan struct{} // closed when the goroutine of greet has ended

	mu            sync.Mutex
	nextCallback  int
	reconnected   map[int]func()
	subscriptions map[*nats.Subscription]*Subscription
	opening       map[*streamReader]bool
}

// Connect connects and returns when it has succeeded; it tries until ctx ends. A fault of the
// configuration (no address, an unreadable certificate, another machine without TLS) is returned at once.
func Connect(ctx context.Context, cfg Config) (*Conn, error) {
	c, err := Dial(cfg)
	if err != nil {
		return nil, err
	}
	select {
	case <-c.first:
		return c, nil
	case <-ctx.Done():
		cause := c.nc.LastError()
		c.nc.Close()
		<-c.closed
		<-c.ended
		if cause == nil {
			cause = ctx.Err()
		}
		return nil, fmt.Errorf("connecting to NATS at %s: %w", cfg.Servers(), cause)
	}
}

// Dial makes a connection that comes up by itself, now or when there is a server: until then
// Connected is false, what is published fails with ErrDisconnected, and subscriptions wait.
// When it is up OnReconnect's callbacks are called, as after a loss. A fault of the
// configuration is returned. It waits at most for one attempt at each server.
func Dial(cfg Config) (*Conn, error) {
	if len(cfg.URLs) == 0 && cfg.InProcess == nil {
		return nil, errors.New("connecting to NATS: no server address is set")
	}
	if err := cfg.CheckServers(); err != nil {
		return nil, fmt.Errorf("connecting to NATS: %w", err)
	}
	logger := cfg.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	id, err := newSelf(cfg)
	if err != nil {
		return nil, fmt.Errorf("connecting to NATS at %s: %w", cfg.Servers(), err)
	}
	c := &Conn{
		name:          cfg.Name,
		servers:       cfg.Servers(),
		inbox:         inboxRoot + id.inbox,
		self:          id,
		logger:        logger,
		metrics:       newMetrics(cfg.Registerer, cfg.Name),
		timing:        defaultStreamTiming,
		first:         make(chan struct{}),
		up:            make(chan struct{}, 1),
		closed:        make(chan struct{}),
		ended:         make(chan struct{}),
		reconnected:   map[int]func(){},
		subscriptions: map[*nats.Subscription]*Subscription{},
	}
	opts, err := c.options(cfg)
	if err == nil {
		c.nc, err = nats.Connect(strings.Join(cfg.URLs, ","), opts...)
	}
	if err != nil {
		return nil, fmt.Errorf("connecting to NATS at %s: %w", cfg.Servers(), err)
	}
	nc := c.nc
	who, err := nc.SubscribeSync(c.inbox + "." + whoToken)
	if err != nil {
		nc.Close()
		<-c.closed
		return nil, wrap("listening for who this is", err)
	}
	go c.greet(who)
	if !nc.IsConnected() {
		logger.Warn("NATS cannot be reached; trying again until it can", "servers", cfg.Servers(), "err", nc.LastError())
	}
	return c, nil
}

func (c *Conn) options(cfg Config) ([]nats.Option, error) {
	opts := []nats.Option{
		nats.Name(cfg.Name),
		nats.CustomInboxPrefix(c.inbox),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(),
		nats.CustomReconnectDelay(reconnectDelay(cfg.MaxReconnectDelay)),
		// Nothing is kept for later while there is no server: an old ask or an old heart-beat
		// helps nobody, and the sender learns that it was not sent.
		nats.ReconnectBufSize(-1),
		// Its server may have to ask an apiserver first who this is.
		nats.Timeout(connectTimeout),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(pingsUnanswered),
		nats.DrainTimeout(drainTimeout),
		nats.ConnectHandler(func(nc *nats.Conn) {
			c.logger.Info("Connected to NATS", "server", nc.ConnectedUrlRedacted())
			c.self.came()
			c.forgetDenials()
			c.isUp()
		}),
		nats.DisconnectErrHandler(func(nc *nats.Conn, err error) {
			c.metrics.connected.Set(0)
			c.self.lost()
			if nc.IsClosed() { // by Close
				return
			}
			c.logger.Warn("Lost the connection to NATS; trying again until it is back", "err", err)
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			c.metrics.reconnects.Inc()
			c.logger.Info("Connected to NATS again", "server", nc.ConnectedUrlRedacted())
			c.self.came()
			c.forgetDenials()
			c.isUp()
		}),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { c.refused(err) }),
		nats.ClosedHandler(func(*nats.Conn) {
			c.metrics.connected.Set(0)
			close(c.closed)
		}),
		nats.ErrorHandler(c.asyncError),
	}
	shown, err := c.self.options(cfg)
	if err != nil {
		return nil, err
	}
	opts = append(append(opts, shown...), cfg.dialing()...)
	if cfg.InProcess != nil {
		opts = append(opts, nats.InProcessServer(inProcess(cfg.InProcess)))
	}
	return opts, nil
}

type inProcess func() (net.Conn, error)

func (f inProcess) InProcessConn() (net.Conn, error) { return f() }

// reconnectDelay gives delays that grow with the attempts up to longest, or 5 s if that is 0. Each
// is spread over half its length, so that the clients of a restarted server do not come back in
// one moment.
func reconnectDelay(longest time.Duration) func(attempts int) time.Duration {
	if longest <= 0 {
		longest = maxReconnectDelay
	}
	return func(attempts int) time.Duration {
		delay := longest
		if attempts < 7 {
			delay = min(minReconnectDelay<<attempts, longest)
		}
		return delay/2 + rand.N(delay/2)
	}
}

func (c *Conn) callReconnected() {
	c.mu.Lock()
	callbacks := slices.Collect(maps.Values(c.reconnected))
	c.mu.Unlock()
	for _, callback := range callbacks {
		callback()
	}
}

func (c *Conn) asyncError(_ *nats.Conn, sub *nats.Subscription, err error) {
	switch {
	case errors.Is(err, nats.ErrSlowConsumer) && sub != nil:
		c.mu.Lock()
		s := c.subscriptions[sub]
		c.mu.Unlock()
		if s == nil {
			return
		}
		c.metrics.slow.Inc()
		c.logger.Warn("Messages were lost since their handler is slow", "subject", sub.Subject)
		s.lost(ErrSlow)
	case errors.Is(err, nats.ErrPermissionViolation):
		c.logger.Warn("NATS refused an operation", "err", err)
		if strings.Contains(err.Error(), `Publish to "`) {
			c.isUp() // The identity may be another one now.
			c.forbidden(err)
		}
		for _, s := range c.deniedSubscriptions(err) {
			s.denied.Store(true)
			s.lost(fmt.Errorf("%w: %w", ErrDenied, err))
		}
	default:
		c.logger.Warn("NATS reported an error", "err", err)
	}
}

// deniedSubscriptions finds the subscriptions that an error of the server is about. The
// server names only the subject.
func (c *Conn) deniedSubscriptions(err error) []*Subscription {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []*Subscription
	for sub, s := range c.subscriptions {
		if strings.Contains(err.Error(), `Subscription to "`+sub.Subject+`"`) {
			found = append(found, s)
		}
	}
	return found
}

// forgetDenials is called before a new server says what it refuses.
func (c *Conn) forgetDenials() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.subscriptions {
		s.denied.Store(false)
	}
}

// Close takes no more messages, waits at most 5 s for the handlers under way and for what is
// still to be sent, and ends the connection.
func (c *Conn) Close() {
	if err := c.nc.Drain(); err != nil {
		c.nc.Close()
	}
	timer := time.NewTimer(drainTimeout)
	defer timer.Stop()
	select {
	case <-c.closed:
	case <-timer.C:
		c.nc.Close()
		<-c.closed
	}
	<-c.ended
}

// Connected says whether there is a server at this moment, which knows who this is.
func (c *Conn) Connected() bool { return c.nc.IsConnected() && c.self.known() }

// Lost says, for people, why there is no server at this moment; nil when Connected.
func (c *Conn) Lost() error {
	switch {
	case c.Connected():
		return nil
	case c.nc.IsConnected():
		return fmt.Errorf("waiting for NATS at %s, which does not say yet who this is", c.servers)
	}
	if err := c.nc.LastError(); err != nil {
		return fmt.Errorf("waiting for NATS at %s: %w", c.servers, err)
	}
	return fmt.Errorf("waiting for NATS at %s", c.servers)
}

// AuthRequired says whether the present server wants to know who its clients are.
func (c *Conn) AuthRequired() bool { return c.nc.AuthRequired() }

// MaxPayload is the largest message in bytes, headers included, that the server takes.
func (c *Conn) MaxPayload() int64 { return c.nc.MaxPayload() }

// OnReconnect has callback called, one call at a time, whenever the connection is back after
// it was lost: what was sent meanwhile is lost. It must not block. It ends with cancel.
func (c *Conn) OnReconnect(callback func()) (cancel func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := c.nextCallback
	c.nextCallback++
	c.reconnected[id] = callback
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.reconnected, id)
	}
}

// NewInbox makes a subject for answers to this connection, which nobody else has.
func (c *Conn) NewInbox() string { return c.inbox + "." + nuid.Next() }

// IsInbox says whether subject is one at which answers are taken. Nobody may be answered
// anywhere else: a responder has rights that an asker has not.
func IsInbox(subject string) bool {
	rest, ok := strings.CutPrefix(subject, inboxRoot)
	if !ok || strings.ContainsAny(rest, "*> \t\r\n") {
		return false
	}
	tokens := strings.Split(rest, ".")
	return len(tokens) >= 2 && !slices.Contains(tokens, "")
}

// wrap turns a client error into ours.
func wrap(what string, err error) error {
	var broken *net.OpError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &broken), errors.Is(err, io.ErrClosedPipe), errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
		// The connection broke in this moment, before the client could notice.
		return fmt.Errorf("%s: %w (%w)", what, ErrDisconnected, err)
	case errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionClosed),
		errors.Is(err, nats.ErrConnectionReconnecting), errors.Is(err, nats.ErrDisconnected),
		errors.Is(err, nats.ErrConnectionDraining):
		return fmt.Errorf("%s: %w (%w)", what, ErrDisconnected, err)
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%s: %w", what, ErrTooLarge)
	}
	return fmt.Errorf("%s: %w", what, err)
}
