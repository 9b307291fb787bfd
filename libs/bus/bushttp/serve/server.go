package serve

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

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bushttp"
	"github.com/garboard/garboard/libs/bus/bushttp/internal/protocol"
	"github.com/garboard/garboard/libs/bus/inflight"
	"github.com/garboard/garboard/libs/bus/logsample"
	"github.com/garboard/garboard/libs/bus/subject"
)

const (
	// apiservers is the queue group of apiservers, of which one takes each request, and agents that of the
	// agents of a node, of which there should be one.
	apiservers, agents = "apiservers", "agents"
	// DefaultDrain is how long requests in flight may take when a Server shuts down.
	DefaultDrain = 15 * time.Second
	// maxExchanges is how many requests a Server serves at once, watches included; maxExchangesEach
	// is the limit for one user.
	maxExchanges, maxExchangesEach = 16 << 10, 8 << 10
	// maxFew is how many requests of the users that Config.Few names are served at once, all together, and
	// maxFewEach the limit for one of them. They count for the limits above too.
	maxFew, maxFewEach = 1 << 10, 512
	// acceptAfter is how long the server waits for a response before it introduces itself to the
	// caller, so that the caller can ask about the request and cancel it.
	acceptAfter = 20 * time.Millisecond
	// peerToken is a part of the inboxes to which callers send messages.
	peerToken = "api"
)

// Config configures a Server.
type Config struct {
	// Node is the name of the node whose requests the Server serves: those of apiservers to its agent.
	// Empty for the API: requests of all clients.
	Node string
	// Conn is the connection to NATS, which outlives the Server; Handler serves the requests. Both
	// are required. Requests have no TLS state. Their RemoteAddr is the address, without a port,
	// from which the caller connected to NATS.
	Conn    *bus.Conn
	Handler http.Handler
	// Few reports whether a caller is one of those that get only few places; nil for none. It must not block.
	Few func(asker subject.Client) bool
	// Patience and Drain default to bushttp.DefaultPatience and DefaultDrain if 0.
	Patience, Drain time.Duration
	// Budget bounds what the readers of requests' bodies hold. Servers may share one; when nil, the Server has its
	// own, of 32 MiB.
	Budget *bushttp.Budget
	// Serving, unless nil, is called once requests are accepted.
	Serving func()
	// Logger may be nil.
	Logger *slog.Logger
	// Registerer, if set, receives the metrics, which all Servers of a process share.
	Registerer prometheus.Registerer
}

// Server serves the requests of Transports.
type Server struct {
	Config
	buffers   protocol.Buffers
	limiter   *inflight.Limiter
	few       *inflight.Limiter
	metrics   *metrics
	malformed logsample.Gate

	mu        sync.Mutex
	exchanges map[string]*exchange // by the subject at which their callers send messages
	next      uint64
}

// New returns a Server, which does nothing before Run.
func New(cfg Config) *Server {
	if cfg.Patience <= 0 {
		cfg.Patience = bushttp.DefaultPatience
	}
	if cfg.Drain <= 0 {
		cfg.Drain = DefaultDrain
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Budget == nil {
		cfg.Budget = bushttp.NewBudget(protocol.DefaultBudget)
	}
	return &Server{
		Config: cfg, exchanges: map[string]*exchange{},
		limiter: inflight.New(maxExchanges, maxExchangesEach), few: inflight.New(maxFew, maxFewEach),
		metrics: newMetrics(cfg.Registerer, cfg.Node),
	}
}

// Run accepts requests until ctx ends. Those in flight may then finish within Drain; Run ends the
// rest together with their contexts. It returns after the last handler has returned. Run may be
// called only once.
func (s *Server) Run(ctx context.Context) error {
	base, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	words, err := s.Conn.Subscribe(context.WithoutCancel(ctx), s.Conn.PeerInboxes(peerToken), s.receive)
	if err != nil {
		return fmt.Errorf("serving HTTP over NATS: %w", err)
	}
	var working sync.WaitGroup
	at, queue := subject.AllAPI(), apiservers
	if s.Node != "" {
		at, queue = subject.NodeAPI(s.Node), agents
	}
	requests, err := s.Conn.QueueSubscribe(base, at, queue, func(m bus.Message) {
		if x := s.open(base, m); x != nil {
			working.Go(x.serve)
		}
	}, bus.OnLoss(func(err error) { s.Logger.Error("requests over NATS were lost", "err", err) }))
	if err != nil {
		words.Unsubscribe()
		<-words.Done()
		return fmt.Errorf("serving HTTP over NATS: %w", err)
	}
	if s.Serving != nil && s.Conn.Flush(ctx) == nil {
		s.Serving()
	}
	s.watch(ctx, requests.Done())
	requests.Drain()
	idle := make(chan struct{})
	go func() {
		defer close(idle)
		<-requests.Done()
		working.Wait()
	}()
	ending, stop := context.WithTimeout(base, s.Drain)
	defer stop()
	s.watch(ending, idle)
	select {
	case <-idle:
	default:
		s.Logger.Warn("aborted requests over NATS at shutdown")
		requests.Unsubscribe()
		end(bushttp.ErrClosed)
		<-idle
	}
	words.Unsubscribe()
	<-words.Done()
	return nil
}

// watch ends the requests of callers that are gone, until ctx ends or done is closed.
func (s *Server) watch(ctx context.Context, done <-chan struct{}) {
	ticker := time.NewTicker(s.Patience / protocol.BeatsInPatience)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-done:
			return
		case <-ticker.C:
		}
		s.mu.Lock()
		var silent []*exchange
		for _, x := range s.exchanges {
			if x.silent(s.Patience) {
				silent = append(silent, x)
			}
		}
		s.mu.Unlock()
		for _, x := range silent {
			x.stop(bushttp.ErrLost)
		}
	}
}

// open starts an exchange for a request; nil if there is nothing to serve.
func (s *Server) open(ctx context.Context, m bus.Message) *exchange {
	asker, err := s.asker(m)
	var f protocol.Frame
	if err == nil {
		f, err = protocol.Decode(m.Data)
	}
	if err == nil && (f.Kind != protocol.KindRequest || !f.First()) {
		err = fmt.Errorf("%w: not a request", protocol.ErrMalformed)
	}
	if err != nil {
		// The server answers no client that might not be the sender.
		s.ignore("request", m.Subject, err)
		return nil
	}
	request, err := protocol.DecodeRequest(f.Head)
	switch {
	case err != nil:
		s.Logger.Debug("refused a request over NATS", "err", err)
		s.refuse(ctx, m, f.Credit, "", badRequest)
		return nil
	}
	few := s.Few != nil && s.Few(asker)
	if !s.acquire(asker.User(), few) {
		s.refuse(ctx, m, f.Credit, request.Method, tooMany)
		return nil
	}
	x := &exchange{
		server: s, user: asker.User(), few: few, caller: m.Reply, address: s.address(m.Reply), heard: time.Now(), granted: f.Credit,
		upgrade: protocol.Upgrade(request.Header) != "", wake: make(chan struct{}, 1),
		body: requestBody{wake: make(chan struct{}, 1), granted: uint64(len(f.Body))},
	}
	life, cancel := context.WithCancelCause(context.WithValue(ctx, callerKey{}, asker))
	x.over, x.cause, x.cancel = life.Done(), func() error { return context.Cause(life) }, cancel
	s.metrics.inWork.Inc()
	s.mu.Lock()
	s.exchanges[x.address] = x
	s.mu.Unlock()
	protocol.KeepUpgrade(request.Header)
	request.RemoteAddr = remoteAddr(asker)
	x.begin(life, request, f)
	return x
}

// acquire takes a place for a request of a user, and reports whether there was one.
func (s *Server) acquire(user string, few bool) bool {
	if few && !s.few.TryAcquire(user) {
		return false
	}
	if s.limiter.TryAcquire(user) {
		return true
	}
	if few {
		s.few.Release(user)
	}
	return false
}

type callerKey struct{}

// CallerOf returns the client that sent the request with a context. On a bus with identities, NATS lets
// no client send as another. ok is false for a request that did not come over NATS.
func CallerOf(ctx context.Context) (caller subject.Client, ok bool) {
	caller, ok = ctx.Value(callerKey{}).(subject.Client)
	return caller, ok
}

// asker returns the client that sent a request. Only apiservers may publish at a node's subject.
func (s *Server) asker(m bus.Message) (subject.Client, error) {
	if s.Node != "" {
		if !subject.AnswersNode(m.Reply, s.Node) {
			return subject.Client{}, fmt.Errorf("%w: reply subject %q", protocol.ErrMalformed, m.Reply)
		}
		return subject.Client{Identity: subject.NoIdentity}, nil
	}
	asker, err := subject.ParseClient(m.Subject)
	if err == nil && !asker.Owns(m.Reply) {
		err = fmt.Errorf("%w: reply subject %q", protocol.ErrMalformed, m.Reply)
	}
	return asker, err
}

// remoteAddr returns the address from which the caller connected to NATS, or its inbox if the
// address is not known. It has no port, so that a caller on the machine of NATS is not mistaken for
// one on this machine.
func remoteAddr(asker subject.Client) string {
	if host := asker.Host(); host != "" {
		return host
	}
	return "nats:" + asker.Inbox
}

// address returns a new subject at which a caller sends messages about one request.
func (s *Server) address(caller string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	return s.Conn.PeerInbox(caller, peerToken, strconv.FormatUint(s.next, 36))
}

// ignore counts a message that cannot be handled, and logs it unless there are too many. kind is
// what the message should have been.
func (s *Server) ignore(kind, subject string, err error) {
	s.metrics.malformed.Inc()
	if held, open := s.malformed.Open(time.Now()); open {
		s.Logger.Warn("ignored a malformed message over NATS", "kind", kind, "subject", subject, "err", err, "notLogged", held)
	}
}

// receive handles the callers' messages about requests in flight.
func (s *Server) receive(m bus.Message) {
	if at, ok := strings.CutSuffix(m.Subject, "."+protocol.BeatToken); ok {
		s.beat(at, m)
		return
	}
	s.mu.Lock()
	x := s.exchanges[m.Subject]
	s.mu.Unlock()
	if x == nil {
		return // It has already ended.
	}
	if m.NoResponders() {
		x.stop(bushttp.ErrLost)
		return
	}
	f, err := protocol.Decode(m.Data)
	if err == nil {
		err = x.receive(f)
	}
	if err != nil {
		s.Logger.Debug("abandoned a request over NATS", "err", err)
		x.abort(err)
	}
}

// beat answers a caller's questions.
func (s *Server) beat(at string, m bus.Message) {
	f, err := protocol.Decode(m.Data)
	var questions []protocol.Question
	if err == nil && f.Kind == protocol.KindBeat {
		questions, err = protocol.DecodeQuestions(f.Body)
	}
	if err == nil && !answersTo(at, m.Reply) {
		err = fmt.Errorf("%w: reply subject %q", protocol.ErrMalformed, m.Reply)
	}
	if err != nil || len(questions) == 0 {
		if !m.NoResponders() {
			s.ignore("beat", m.Subject, err)
		}
		return
	}
	replies := make([]protocol.Reply, len(questions))
	for i, q := range questions {
		replies[i].Call = q.Call
		s.mu.Lock()
		x := s.exchanges[at+"."+strconv.FormatUint(q.Server, 36)]
		s.mu.Unlock()
		if x == nil {
			continue
		}
		if replies[i].Sent, err = x.learn(q); err != nil {
			x.abort(err)
			continue
		}
		replies[i].Known = true
	}
	// A beat belongs to no single request, so only the loss of the connection ends it.
	if err := s.Conn.Publish(context.Background(), m.Reply, protocol.EncodeReplies(replies)); err != nil {
		s.Logger.Debug("could not answer a beat", "err", err)
	}
}

// answersTo reports whether inbox belongs to the one peer that may publish at the subject at.
func answersTo(at, inbox string) bool {
	// _INBOX.<own>.from.<peer>.<token>
	tokens := strings.Split(at, ".")
	return len(tokens) == 5 && (subject.Client{Inbox: tokens[3]}).Owns(inbox)
}

func (s *Server) forget(x *exchange) {
	s.metrics.inWork.Dec()
	s.limiter.Release(x.user)
	if x.few {
		s.few.Release(x.user)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.exchanges, x.address)
}

var errRequestOver = errors.New("the request is over")
