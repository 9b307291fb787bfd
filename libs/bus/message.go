package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// Errors of connecting, publishing and subscribing.
var (
	// ErrNotLetIn means that the servers refuse this client's credential, or that no apiserver answers them.
	ErrNotLetIn = errors.New("NATS does not let this client in")
	// ErrTooLarge means that a message is larger than MaxPayload.
	ErrTooLarge = errors.New("the message is larger than the server accepts")
	// ErrSlow means that messages of a subscription were lost because its handler is too slow.
	ErrSlow = errors.New("messages were lost because their handler is slow")
	// ErrDenied means that the server refuses a subscription.
	ErrDenied = errors.New("the server refuses the subscription")
	// ErrNoResponders means that no subscriber listens at the subject of a request.
	ErrNoResponders = errors.New("no responder at the subject")
)

// Message is one message of a subscription.
type Message struct {
	// Subject is the subject at which it was published.
	Subject string
	// Reply is the subject at which the sender expects answers; empty for none.
	Reply string
	// Header is nil for most messages.
	Header map[string][]string
	// Data belongs to the handler, which may modify it.
	Data []byte
}

// NoResponders reports whether this is not a message but the server's notice that no subscriber
// listened where a message with this subject as its Reply was sent.
func (m Message) NoResponders() bool {
	if len(m.Data) != 0 {
		return false
	}
	status := m.Header["Status"]
	return len(status) == 1 && status[0] == "503"
}

func fromNATS(m *nats.Msg) Message {
	return Message{Subject: m.Subject, Reply: m.Reply, Header: m.Header, Data: m.Data}
}

// Publish sends a message. It does not wait for the server: nil means that the message is on its
// way, not that it arrived. Without a server it fails with ErrDisconnected and does not send the
// message later.
func (c *Conn) Publish(ctx context.Context, subject string, data []byte) error {
	return c.PublishRequest(ctx, subject, "", data)
}

// PublishRequest is Publish with a subject for answers. If no subscriber listens at subject, the
// server sends a notice to reply (see Message.NoResponders).
func (c *Conn) PublishRequest(ctx context.Context, subject, reply string, data []byte) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("publishing at %s: %w", subject, err)
	}
	return wrap("publishing at "+subject, c.nc.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Data: data}))
}

// Request sends a message and returns the first answer, for which it waits until ctx ends. It
// returns ErrNoResponders at once if the server reports that no subscriber listens at subject. No
// other error says anything about subscribers.
func (c *Conn) Request(ctx context.Context, subject string, data []byte) (Message, error) {
	answer, err := c.nc.RequestWithContext(ctx, subject, data)
	if errors.Is(err, nats.ErrNoResponders) {
		return Message{}, fmt.Errorf("asking at %s: %w", subject, ErrNoResponders)
	}
	if err != nil {
		return Message{}, wrap("asking at "+subject, err)
	}
	return fromNATS(answer), nil
}

// Flush returns when the server has received every message published before and activated every
// subscription made before.
func (c *Conn) Flush(ctx context.Context) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, flushTimeout)
		defer cancel()
	}
	return wrap("flushing the connection to NATS", c.nc.FlushWithContext(ctx))
}

// SubscribeOption changes one subscription.
type SubscribeOption func(*Subscription)

// OnLoss calls callback when messages of the subscription were lost (ErrSlow; once per series of
// losses) or when the server refuses the subscription (ErrDenied). The callback must not block.
func OnLoss(callback func(err error)) SubscribeOption {
	return func(s *Subscription) { s.onLoss = callback }
}

// Pending limits how many messages and bytes wait for the handler; the rest is dropped. The limit
// in bytes has no effect on SubscribeAll.
func Pending(messages, bytes int) SubscribeOption {
	return func(s *Subscription) { s.pendingMessages, s.pendingBytes = messages, bytes }
}

// Limits of a subscription without Pending.
const (
	defaultPendingMessages = 64 << 10
	defaultPendingBytes    = 64 << 20
	defaultPendingAll      = 512
)

// Subscription is interest in one or more subjects.
type Subscription struct {
	conn                          *Conn
	subs                          []*nats.Subscription
	handler                       func(Message)
	onLoss                        func(error)
	pendingMessages, pendingBytes int
	stop                          func() bool
	once                          sync.Once
	ended, denied                 atomic.Bool
	// wanted means that a renewal is wanted, renewed counts them since renewedAt; conn.mu guards them.
	wanted    bool
	renewed   int
	renewedAt time.Time
	quit      chan struct{}
	done      chan struct{}
}

// Subscribe calls handler for every message at subject, which may contain wildcards. Calls don't
// overlap. The subscription ends with ctx or with Unsubscribe. Messages of one sender arrive in the
// order in which they were sent.
func (c *Conn) Subscribe(ctx context.Context, subject string, handler func(Message), opts ...SubscribeOption) (*Subscription, error) {
	return c.QueueSubscribe(ctx, subject, "", handler, opts...)
}

// QueueSubscribe is Subscribe for a queue group: one member receives each message.
func (c *Conn) QueueSubscribe(ctx context.Context, subject, queue string, handler func(Message),
	opts ...SubscribeOption) (*Subscription, error) {
	s := c.newSubscription(handler, opts)
	err := s.open(func() ([]*nats.Subscription, error) {
		sub, err := c.nc.QueueSubscribe(subject, queue, func(m *nats.Msg) {
			if !s.ended.Load() {
				s.handler(fromNATS(m))
			}
		})
		if err != nil {
			return nil, wrap("subscribing to "+subject, err)
		}
		sub.SetClosedHandler(func(string) { close(s.done) })
		if err := sub.SetPendingLimits(s.pendingMessages, s.pendingBytes); err != nil {
			return nil, errors.Join(wrap("bounding the subscription to "+subject, err), sub.Unsubscribe())
		}
		return []*nats.Subscription{sub}, nil
	})
	if err != nil {
		return nil, err
	}
	s.begin(ctx)
	return s, nil
}

// SubscribeAll is Subscribe for several subjects, whose messages arrive in the order in which the
// server sent them. A message that matches two of the subjects arrives twice.
func (c *Conn) SubscribeAll(ctx context.Context, subjects []string, handler func(Message), opts ...SubscribeOption) (*Subscription, error) {
	s := c.newSubscription(handler, append([]SubscribeOption{Pending(defaultPendingAll, 0)}, opts...))
	messages := make(chan *nats.Msg, s.pendingMessages)
	err := s.open(func() (subs []*nats.Subscription, err error) {
		for _, subject := range subjects {
			sub, err := c.nc.ChanSubscribe(subject, messages)
			if err != nil {
				err = wrap("subscribing to "+subject, err)
				for _, sub := range subs {
					err = errors.Join(err, sub.Unsubscribe())
				}
				return nil, err
			}
			subs = append(subs, sub)
		}
		return subs, nil
	})
	if err != nil {
		return nil, err
	}
	go s.deliver(messages)
	s.begin(ctx)
	return s, nil
}

func (c *Conn) newSubscription(handler func(Message), opts []SubscribeOption) *Subscription {
	s := &Subscription{
		conn: c, handler: handler,
		pendingMessages: defaultPendingMessages, pendingBytes: defaultPendingBytes,
		quit: make(chan struct{}), done: make(chan struct{}),
	}
	for _, opt := range opts {
		opt(s)
	}
	return s
}

// open subscribes under the lock, so that an immediate denial finds its subscription.
func (s *Subscription) open(subscribe func() ([]*nats.Subscription, error)) error {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	subs, err := subscribe()
	if err != nil {
		return err
	}
	s.subs = subs
	for _, sub := range subs {
		c.subscriptions[sub] = s
	}
	return nil
}

func (s *Subscription) begin(ctx context.Context) {
	stop := context.AfterFunc(ctx, s.end)
	s.conn.mu.Lock()
	s.stop = stop
	s.conn.mu.Unlock()
}

func (s *Subscription) deliver(messages <-chan *nats.Msg) {
	defer close(s.done)
	for {
		select {
		case <-s.quit:
			return
		case <-s.conn.closed:
			return
		case m := <-messages:
			if s.ended.Load() {
				return
			}
			s.handler(fromNATS(m))
		}
	}
}

// Unsubscribe ends the subscription: no call of the handler begins after it returns. It does not
// wait for a running call, so handlers may call it; to wait, use Done.
func (s *Subscription) Unsubscribe() {
	s.conn.mu.Lock()
	stop := s.stop
	s.conn.mu.Unlock()
	if stop != nil {
		stop()
	}
	s.end()
}

// Denied reports whether the present server is known to refuse the subscription.
func (s *Subscription) Denied() bool { return s.denied.Load() }

// Done is closed when the last call of the handler has returned after the subscription or the
// connection has ended.
func (s *Subscription) Done() <-chan struct{} { return s.done }

func (s *Subscription) end() {
	s.once.Do(func() {
		s.ended.Store(true)
		close(s.quit)
		s.conn.mu.Lock()
		for _, sub := range s.subs {
			delete(s.conn.subscriptions, sub)
		}
		s.conn.mu.Unlock()
		for _, sub := range s.subs {
			// It fails only if the connection has ended, and the subscription with it.
			_ = sub.Unsubscribe()
		}
	})
}

func (s *Subscription) lost(err error) {
	if s.onLoss != nil && !s.ended.Load() {
		s.onLoss(err)
	}
}
