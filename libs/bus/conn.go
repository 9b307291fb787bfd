package bus

import (
	"context"
	"crypto/tls"
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
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/garboard/garboard/libs/bus/subject"
)

// Delays between two attempts at the list of servers.
const (
	minReconnectDelay = 50 * time.Millisecond
	maxReconnectDelay = 5 * time.Second
)

// drainTimeout bounds how long Close waits for handlers and for unsent messages.
const drainTimeout = 5 * time.Second

// connectTimeout is how long a server may take to accept a client, and greetTimeout how long Dial waits to be identified.
const connectTimeout, greetTimeout = 10 * time.Second, time.Second

// A server that is stopped but not dead keeps its connections, so only unanswered pings reveal it.
// The client leaves such a server after the ping that follows pingsUnanswered unanswered ones,
// about ten seconds.
const (
	pingInterval    = 3 * time.Second
	pingsUnanswered = 2
)

// ErrDisconnected means that the client has no server at the moment and sent nothing. The
// connection keeps retrying by itself.
var ErrDisconnected = errors.New("not connected to NATS")

// Conn is a connection to NATS that reconnects by itself, forever. It is safe for concurrent use.
type Conn struct {
	nc      *nats.Conn
	name    string
	servers string // for error messages
	// inbox is the prefix of all subjects at which this connection receives answers.
	inbox   string
	self    *self
	logger  *slog.Logger
	metrics *metrics
	first   chan struct{} // closed once the first server is reached
	up      chan struct{} // receives a value when a server is back
	closed  chan struct{}
	renew   chan struct{}  // receives a value when a subscription wants a renewal
	work    sync.WaitGroup // greet and renewing, which end with the connection
	leaving atomic.Bool    // The server is left on purpose.

	mu            sync.Mutex
	nextCallback  int
	reconnected   map[int]func()
	subscriptions map[*nats.Subscription]*Subscription
	refusals      map[*refusal]bool
}

// Connect dials and waits until the connection is up or ctx ends. It returns a configuration error
// (no address, an unreadable certificate, another machine without TLS) at once.
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
		c.work.Wait()
		if cause == nil {
			cause = ctx.Err()
		}
		return nil, fmt.Errorf("connecting to NATS at %s: %w", cfg.Servers(), cause)
	}
}

// Dial returns a connection that comes up by itself, now or when a server becomes reachable. Until
// then Connected returns false, publishing fails with ErrDisconnected, and subscriptions wait. When
// it comes up, it calls the callbacks of OnReconnect, as after a loss. Dial returns configuration
// errors. It waits for at most one attempt at each server, and a second for it to identify this client.
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
		inbox:         subject.Inbox(id.inbox),
		self:          id,
		logger:        logger,
		metrics:       newMetrics(cfg.Registerer, cfg.Name),
		first:         make(chan struct{}),
		up:            make(chan struct{}, 1),
		closed:        make(chan struct{}),
		renew:         make(chan struct{}, 1),
		reconnected:   map[int]func(){},
		subscriptions: map[*nats.Subscription]*Subscription{},
		refusals:      map[*refusal]bool{},
	}
	opts, err := c.options(cfg)
	if err == nil {
		c.nc, err = nats.Connect(strings.Join(cfg.URLs, ","), opts...)
	}
	if err != nil {
		return nil, fmt.Errorf("connecting to NATS at %s: %w", cfg.Servers(), err)
	}
	nc := c.nc
	replies, err := nc.SubscribeSync(c.inbox + "." + whoToken)
	if err != nil {
		nc.Close()
		<-c.closed
		return nil, wrap("subscribing to this connection's identity", err)
	}
	c.work.Go(func() { c.greet(replies) })
	c.work.Go(c.renewing)
	if !nc.IsConnected() {
		logger.Warn("NATS is unreachable; retrying until it answers", "servers", cfg.Servers(), "err", nc.LastError())
		return c, nil
	}
	// Followers would begin over HTTP in these milliseconds, and stay there for a while.
	select {
	case <-c.first:
	case <-c.closed:
	case <-time.After(greetTimeout):
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
		// Buffer nothing while there is no server: an old ask or heartbeat helps no one, and the
		// sender learns that its message was not sent.
		nats.ReconnectBufSize(-1),
		// The server may first have to ask an apiserver for this client's identity.
		nats.Timeout(connectTimeout),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(pingsUnanswered),
		nats.DrainTimeout(drainTimeout),
		// Only the answers to ask arrive in such a queue. The default takes 512 KB of every connection.
		nats.SyncQueueLen(maxIdentities),
		nats.ConnectHandler(func(nc *nats.Conn) {
			c.logger.Info("connected to NATS", "server", nc.ConnectedUrlRedacted())
			c.self.came()
			c.forgetDenials()
			c.isUp()
		}),
		nats.DisconnectErrHandler(func(nc *nats.Conn, err error) {
			c.metrics.connected.Set(0)
			c.self.lost()
			if c.leaving.Swap(false) || nc.IsClosed() { // by renewing or by Close
				return
			}
			c.logger.Warn("lost the connection to NATS; reconnecting", "err", err)
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			c.metrics.reconnects.Inc()
			c.leaving.Store(false)
			c.logger.Info("reconnected to NATS", "server", nc.ConnectedUrlRedacted())
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

// reconnectDelay returns a function that computes delays growing with the attempts up to longest,
// or 5 s if that is 0. Each delay is spread over half its length, so that the clients of a
// restarted server do not all come back at once.
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
		c.logger.Warn("messages were lost because their handler is slow", "subject", sub.Subject)
		s.lost(ErrSlow)
	case errors.Is(err, nats.ErrPermissionViolation):
		c.logger.Warn("NATS refused an operation", "err", err)
		if strings.Contains(err.Error(), `Publish to "`) {
			c.isUp() // The identity may have changed.
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

// deniedSubscriptions returns the subscriptions that a server error refers to. The server names
// only the subject.
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

// forgetDenials clears the denials of the last server, before the new one reports its own.
func (c *Conn) forgetDenials() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.subscriptions {
		s.denied.Store(false)
	}
}

// Close stops receiving messages, waits at most 5 s for running handlers and unsent messages, and
// ends the connection.
func (c *Conn) Close() {
	if err := c.nc.Drain(); err != nil {
		c.nc.Close()
	}
	select {
	case <-c.closed:
	case <-time.After(drainTimeout):
		c.nc.Close()
		<-c.closed
	}
	c.work.Wait()
}

// Connected reports whether there is a server at this moment that has identified this client.
func (c *Conn) Connected() bool { return c.nc.IsConnected() && c.self.known() }

// Lost returns, for people, the reason why there is no server at this moment; nil when Connected.
func (c *Conn) Lost() error {
	switch {
	case c.Connected():
		return nil
	case c.nc.IsConnected():
		return fmt.Errorf("waiting for NATS at %s to identify this client", c.servers)
	}
	if err := c.nc.LastError(); err != nil {
		if errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) || errors.As(err, new(tls.AlertError)) {
			err = fmt.Errorf("%w: %w", ErrNotLetIn, err)
		}
		return fmt.Errorf("waiting for NATS at %s: %w", c.servers, err)
	}
	return fmt.Errorf("waiting for NATS at %s", c.servers)
}

// Reconnect reconnects with the credential of this moment. Calls survive that if no message is lost.
func (c *Conn) Reconnect() {
	c.leaving.Store(true)
	if err := c.nc.ForceReconnect(); err != nil {
		c.logger.Debug("could not reconnect to NATS", "err", err)
	}
}

// Logger returns the logger of the connection, never nil, for what others do over it.
func (c *Conn) Logger() *slog.Logger { return c.logger }

// AuthRequired reports whether the present server requires clients to authenticate.
func (c *Conn) AuthRequired() bool { return c.nc.AuthRequired() }

// MaxPayload returns the largest message, in bytes and including headers, that the server accepts.
func (c *Conn) MaxPayload() int64 { return c.nc.MaxPayload() }

// OnReconnect registers callback to be called whenever the connection is back after a loss:
// messages sent meanwhile are lost. Calls don't overlap. The callback must not block. cancel
// removes it.
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

// wrap adds context to a NATS client error and maps it to the errors of this package.
func wrap(what string, err error) error {
	var broken *net.OpError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &broken), errors.Is(err, io.ErrClosedPipe), errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
		// The connection has just broken and the NATS client has not noticed yet.
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
