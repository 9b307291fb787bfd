package bushttp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bushttp/internal/protocol"
	"github.com/garboard/garboard/libs/bus/subject"
)

// DefaultPatience is how long an end may be silent before the other considers it gone.
const DefaultPatience = protocol.Patience

// Budget bounds what the readers of bodies hold together: the bytes that they granted and did not read yet.
type Budget = protocol.Budget

// NewBudget returns a Budget of limit bytes, in addition to 32 KiB for each body.
func NewBudget(limit int64) *Budget { return protocol.NewBudget(limit) }

// Config configures a Transport.
type Config struct {
	// Conn is the connection to NATS; required. It outlives the Transport.
	Conn *bus.Conn
	// Node is the name of the node whose agent is called, which only apiservers may do; empty for the API.
	Node string
	// Patience is DefaultPatience if 0. The Transport detects a killed apiserver after a fifth of
	// it, an unreachable one after all of it.
	Patience time.Duration
	// Budget bounds what the readers of responses hold. Transports may share one; when nil, the Transport has its
	// own, of 32 MiB.
	Budget *Budget
	// Received is told the size of every message that arrives, in bytes. It may be nil, and must not block.
	Received func(bytes int)
	// Logger may be nil.
	Logger *slog.Logger
}

// Transport sends requests over NATS. It implements http.RoundTripper and keeps its contract. The
// scheme and the host of a request's URL have no effect on routing; the host is passed to the
// server.
type Transport struct {
	conn     *bus.Conn
	node     string
	logger   *slog.Logger
	patience time.Duration
	inbox    string // responses arrive at inbox.NUMBER, answers to beats at inbox.-NUMBER
	sub      *bus.Subscription
	forget   []func()
	buffers  protocol.Buffers
	budget   *Budget
	received func(bytes int)

	mu     sync.Mutex
	calls  map[uint64]*call
	next   uint64
	timer  *time.Timer // runs while there are calls
	armed  bool
	beats  map[uint64]string // where the last beats were sent
	beaten uint64
	denied error
	back   chan struct{} // closed when the connection is back
	closed bool
}

// New returns a Transport. The connection may still be down.
func New(ctx context.Context, cfg Config) (*Transport, error) {
	t := &Transport{
		conn: cfg.Conn, node: cfg.Node, logger: cfg.Logger, patience: cfg.Patience, inbox: cfg.Conn.NewInbox(),
		calls: map[uint64]*call{}, beats: map[uint64]string{}, back: make(chan struct{}), budget: cfg.Budget, received: cfg.Received,
	}
	if t.received == nil {
		t.received = func(int) {}
	}
	if t.budget == nil {
		t.budget = NewBudget(protocol.DefaultBudget)
	}
	if t.node != "" {
		t.inbox = t.conn.InboxFor(subject.NodeAPI(t.node))
	}
	if t.logger == nil {
		t.logger = slog.New(slog.DiscardHandler)
	}
	if t.patience <= 0 {
		t.patience = DefaultPatience
	}
	t.timer = time.AfterFunc(time.Hour, t.beat)
	t.timer.Stop()
	sub, err := t.conn.Subscribe(context.WithoutCancel(ctx), t.inbox+".*", t.receive, bus.OnLoss(t.lost))
	if err != nil {
		return nil, fmt.Errorf("creating an HTTP transport over NATS: %w", err)
	}
	t.sub = sub
	t.forget = append(t.forget, t.conn.OnReconnect(t.reconnected))
	if t.node != "" {
		t.forget = append(t.forget, t.conn.OnForbidden(t.target(), t.forbidden))
	}
	return t, nil
}

// Close ends the calls in flight and refuses further ones.
func (t *Transport) Close() {
	t.mu.Lock()
	t.closed = true
	t.timer.Stop()
	calls := t.list(func(*call) bool { return true })
	t.mu.Unlock()
	for _, forget := range t.forget {
		forget()
	}
	for _, c := range calls {
		c.fail(ErrClosed)
	}
	t.sub.Unsubscribe()
	<-t.sub.Done()
}

// Calls returns how many calls are in flight.
func (t *Transport) Calls() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.calls)
}

// list returns the calls for which wanted returns true. The lock is held.
func (t *Transport) list(wanted func(*call) bool) []*call {
	var found []*call
	for _, c := range t.calls {
		if wanted(c) {
			found = append(found, c)
		}
	}
	return found
}

// RoundTrip sends a request and returns the response. The caller must close its body, which is a Conn if
// the connection was upgraded.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	c, err := t.begin(r)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // A RoundTripper must close it, also on errors.
		}
		return nil, err
	}
	select {
	case <-c.headed:
	case <-r.Context().Done():
		c.fail(context.Cause(r.Context()))
	}
	return c.answer()
}

// connected waits briefly for a lost connection to come back: with identities, NATS ends it every
// few minutes and readmits the client at once.
func (t *Transport) connected(ctx context.Context) error {
	if t.conn.Connected() {
		return nil
	}
	timer := time.NewTimer(t.patience / protocol.BeatsInPatience)
	defer timer.Stop()
	for {
		t.mu.Lock()
		back := t.back
		t.mu.Unlock()
		if t.conn.Connected() {
			return nil
		}
		select {
		case <-back:
		case <-timer.C:
			return refused(bus.ErrDisconnected)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// begin sends the first part of a request.
func (t *Transport) begin(r *http.Request) (*call, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	length := r.ContentLength
	if r.Body == nil || r.Body == http.NoBody {
		length = 0
	} else if length == 0 {
		length = -1 // 0 with a body means that the length is unknown.
	}
	upgrade := protocol.Upgrade(r.Header) != ""
	if upgrade && length != 0 {
		return nil, errors.New("calling over NATS: a request to upgrade the connection cannot have a body")
	}
	head, err := protocol.EncodeRequest(r, length)
	if err != nil {
		return nil, fmt.Errorf("calling over NATS: %w", err)
	}
	if err := t.connected(r.Context()); err != nil {
		return nil, err
	}
	c := &call{
		transport: t, request: r, length: length, wake: make(chan struct{}, 1), headed: make(chan struct{}), heard: time.Now(),
		reconnects: t.conn.Reconnects(), upgrade: upgrade,
	}
	first := protocol.Frame{Kind: protocol.KindRequest, Flags: protocol.FlagFirst, Head: head}
	if !upgrade && length >= 0 && length <= int64(protocol.MaxFrame-first.Overhead()) {
		if first.Body, err = readAll(r, length); err != nil {
			return nil, err
		}
		first.Flags |= protocol.FlagLast
		c.sent = uint64(length)
	} else {
		c.credited, c.over = make(chan struct{}, 1), make(chan struct{})
	}
	if err := t.add(c); err != nil {
		return nil, err
	}
	first.Credit = c.granted
	buffer := t.buffers.Get()
	*buffer = first.AppendTo((*buffer)[:0])
	err = t.conn.PublishRequest(r.Context(), t.target(), t.subject(c.number), *buffer)
	t.buffers.Put(buffer)
	if err != nil {
		t.remove(c)
		switch {
		case r.Context().Err() != nil:
			return nil, r.Context().Err()
		case errors.Is(err, bus.ErrTooLarge):
			return nil, fmt.Errorf("calling over NATS: %w", err)
		}
		return nil, refused(err)
	}
	if !first.Last() && !upgrade {
		go c.upload()
	}
	return c, nil
}

// target returns the subject of requests.
func (t *Transport) target() string {
	if t.node != "" {
		return subject.NodeAPI(t.node)
	}
	return t.conn.Client().API()
}

func (t *Transport) subject(number uint64) string {
	return t.inbox + "." + strconv.FormatUint(number, 36)
}

// add registers a call.
func (t *Transport) add(c *call) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return fmt.Errorf("calling over NATS: %w", ErrClosed)
	}
	if t.denied != nil {
		return fmt.Errorf("calling over NATS: %w", t.denied)
	}
	t.next++
	c.number = t.next
	c.granted = t.budget.Window()
	c.hold()
	t.calls[c.number] = c
	if !t.armed {
		t.armed = true
		t.timer.Reset(t.patience / protocol.BeatsInPatience)
	}
	return nil
}

// remove forgets a call.
func (t *Transport) remove(c *call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.calls, c.number)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
}

func (t *Transport) call(number uint64) *call {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.calls[number]
}

// receive handles all messages of apiservers.
func (t *Transport) receive(m bus.Message) {
	t.received(len(m.Data))
	token := strings.TrimPrefix(m.Subject, t.inbox+".")
	if number, ok := strings.CutPrefix(token, protocol.BeatReply); ok {
		t.answered(number, m)
		return
	}
	number, err := strconv.ParseUint(token, 36, 64)
	if err != nil {
		return
	}
	c := t.call(number)
	if c == nil {
		return // It has already ended.
	}
	if m.NoResponders() {
		c.unheard()
		return
	}
	f, err := protocol.Decode(m.Data)
	if err == nil && !t.conn.Client().MaySpeak(m.Reply) {
		err = fmt.Errorf("%w: it names no inbox for this caller", protocol.ErrMalformed)
	}
	if err != nil {
		c.fail(err)
		return
	}
	c.receive(f, m.Reply)
}

// lost handles the loss of messages, or of the subscription.
func (t *Transport) lost(err error) {
	t.mu.Lock()
	if errors.Is(err, bus.ErrDenied) {
		t.denied = err
	}
	t.mu.Unlock()
	t.logger.Warn("responses of the API over NATS were lost", "err", err)
	t.ask() // The answers show which calls are affected.
}

// forbidden ends the calls that no server will ever see.
func (t *Transport) forbidden(err error) {
	t.mu.Lock()
	unseen := t.list(func(c *call) bool { return !c.accepted() })
	t.mu.Unlock()
	for _, c := range unseen {
		c.fail(refused(err))
		t.remove(c)
	}
}

// reconnected finds out which calls have survived the loss of the connection.
func (t *Transport) reconnected() {
	now := t.conn.Reconnects()
	t.mu.Lock()
	close(t.back)
	t.back = make(chan struct{})
	t.denied = nil
	gone := t.list(func(c *call) bool { return c.reconnects != now && !c.accepted() })
	t.mu.Unlock()
	for _, c := range gone {
		c.fail(ErrLost)
	}
	t.ask()
}
