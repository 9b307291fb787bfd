package replay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/inflight"
	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/libs/scheme"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

const (
	// queue is the queue group in which one member receives each ask.
	queue = "apiservers"
	// concurrent is how many pages are read at once, concurrentEach the same for one user; other
	// askers are told to ask again.
	concurrent, concurrentEach = 8, 4
	// askBytes is the largest ask. No field of an ask is longer than a name.
	askBytes = 16 << 10
	// A page ends after pageBytes of messages, after pageScan messages of the log, in the view or
	// not, or after pageTime.
	pageBytes = 256 << 10
	pageScan  = 2000
	pageTime  = time.Second
	// patience is how long JetStream may take for one page.
	patience = 5 * time.Second
	// pageRoom is space for everything in a page except its messages.
	pageRoom = 4 << 10
)

// Bus carries asks and pages: *bus.Conn.
type Bus interface {
	QueueSubscribe(ctx context.Context, subject, queue string, handler func(bus.Message), opts ...bus.SubscribeOption) (*bus.Subscription, error)
	Publish(ctx context.Context, subject string, data []byte) error
	MaxPayload() int64
}

// Log is the log to read: *bus.LogReader.
type Log interface {
	Span(ctx context.Context) (bus.LogSpan, error)
	Next(ctx context.Context, subject string, from uint64) (bus.Logged, error)
	NextSince(ctx context.Context, subject string, since time.Time) (bus.Logged, error)
}

// Config configures a Server.
type Config struct {
	// Table is the set of kinds; required.
	Table *scheme.Table
	// LogOf returns the log of a stored kind; required.
	LogOf func(kind *scheme.Kind) Log
	// Bus carries asks and pages; required.
	Bus Bus
	// Authorize checks that the asker may read the view. It returns nil, or the reason for the
	// refusal, which the asker is shown. Nil allows everything, which is only safe on a bus with
	// trusted users.
	Authorize func(ctx context.Context, asker subject.Client, ask *watchv1.Ask) error
	// Audit records an ask. The context that it returns is passed to Authorize. done ends the
	// record with the status code that HTTP would return, and with the reason of a refusal. An
	// error means that the ask must not be answered. Nil records nothing.
	Audit func(ctx context.Context, asker subject.Client, ask *watchv1.Ask) (audited context.Context, done func(code int, reason string), err error)
	// Logger receives what is not returned to any caller; slog.Default if nil.
	Logger *slog.Logger
	// Registerer receives the metrics; if nil there are none.
	Registerer prometheus.Registerer
}

// Server answers asks for history.
type Server struct {
	cfg     Config
	limiter *inflight.Limiter
	pages   *prometheus.CounterVec
	refused prometheus.Counter
}

// New returns a server. Nothing happens before Run.
func New(cfg Config) *Server {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	s := &Server{
		cfg: cfg, limiter: inflight.New(concurrent, concurrentEach),
		pages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "garboard_history_pages_total", Help: "Requested pages of the log of watch messages, by outcome.",
		}, []string{"outcome"}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "garboard_history_refused_total", Help: "Asks for history that got no answer because they name no inbox of the asker or cannot be read.",
		}),
	}
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(s.pages, s.refused)
	}
	return s
}

// Run answers asks until ctx ends and all answers in progress have ended.
func (s *Server) Run(ctx context.Context) error {
	var work sync.WaitGroup
	defer work.Wait()
	sub, err := s.cfg.Bus.QueueSubscribe(ctx, subject.AllHistory(), queue, func(m bus.Message) {
		asker, ask, err := read(m)
		if err != nil {
			s.refused.Inc()
			s.cfg.Logger.Debug("refused an ask for history", "subject", m.Subject, "reply", m.Reply, "err", err)
			return
		}
		user := asker.User()
		if !s.limiter.TryAcquire(user) {
			s.send(ctx, m.Reply, refusal(watchv1.HistoryOutcome_HISTORY_OUTCOME_NOT_YET, "this apiserver is too busy"))
			return
		}
		work.Go(func() {
			defer s.limiter.Release(user)
			s.send(ctx, m.Reply, s.audited(ctx, asker, ask))
		})
	})
	if err != nil {
		return fmt.Errorf("listening for asks for history: %w", err)
	}
	<-ctx.Done()
	sub.Unsubscribe()
	<-sub.Done()
	return nil
}

// read decodes an ask from a message, and the asker from the message's subject, which NATS
// enforces. An ask whose reply subject is not an inbox of the asker gets no answer: R4.
func read(m bus.Message) (subject.Client, *watchv1.HistoryAsk, error) {
	asker, err := subject.ParseClient(m.Subject)
	if err != nil {
		return subject.Client{}, nil, err
	}
	if !asker.Owns(m.Reply) {
		return subject.Client{}, nil, errors.New("the reply subject is not an inbox of the asker")
	}
	if len(m.Data) > askBytes {
		return subject.Client{}, nil, fmt.Errorf("reading an ask for history: %d bytes are too many", len(m.Data))
	}
	ask := &watchv1.HistoryAsk{}
	if err := proto.Unmarshal(m.Data, ask); err != nil {
		return subject.Client{}, nil, fmt.Errorf("reading an ask for history: %w", err)
	}
	if m.Subject != asker.History(ask.GetGroup(), ask.GetResource()) {
		return subject.Client{}, nil, errors.New("the ask names another resource than its subject")
	}
	return asker, ask, nil
}

func refusal(outcome watchv1.HistoryOutcome, reason string) *watchv1.HistoryPage {
	return &watchv1.HistoryPage{Outcome: outcome, Reason: reason}
}

// audited is page plus an audit record of the ask and the decision.
func (s *Server) audited(ctx context.Context, asker subject.Client, ask *watchv1.HistoryAsk) *watchv1.HistoryPage {
	view := &watchv1.Ask{
		Group: ask.GetGroup(), Resource: ask.GetResource(), Namespace: ask.GetNamespace(), Name: ask.GetName(), Scope: ask.GetScope(),
	}
	if s.cfg.Audit == nil {
		return s.page(ctx, asker, ask, view)
	}
	ctx, done, err := s.cfg.Audit(ctx, asker, view)
	if err != nil {
		return refusal(watchv1.HistoryOutcome_HISTORY_OUTCOME_NOT_YET, err.Error())
	}
	page := s.page(ctx, asker, ask, view)
	code := http.StatusOK
	switch page.GetOutcome() {
	case watchv1.HistoryOutcome_HISTORY_OUTCOME_PAGE, watchv1.HistoryOutcome_HISTORY_OUTCOME_UNSPECIFIED:
	case watchv1.HistoryOutcome_HISTORY_OUTCOME_FORBIDDEN:
		code = http.StatusForbidden
	case watchv1.HistoryOutcome_HISTORY_OUTCOME_NOT_FOUND:
		code = http.StatusNotFound
	default:
		code = http.StatusGatewayTimeout
	}
	done(code, page.GetReason())
	return page
}

// page answers an ask for the history of a view.
func (s *Server) page(ctx context.Context, asker subject.Client, ask *watchv1.HistoryAsk, view *watchv1.Ask) *watchv1.HistoryPage {
	kind := s.cfg.Table.Stored(schema.GroupResource{Group: ask.GetGroup(), Resource: ask.GetResource()})
	if kind == nil {
		return refusal(watchv1.HistoryOutcome_HISTORY_OUTCOME_NOT_FOUND, "the server could not find the requested resource")
	}
	if s.cfg.Authorize != nil {
		if err := s.cfg.Authorize(ctx, asker, view); err != nil {
			return refusal(watchv1.HistoryOutcome_HISTORY_OUTCOME_FORBIDDEN, err.Error())
		}
	}
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	page, err := s.turn(bounded, s.cfg.LogOf(kind), ask)
	if err != nil {
		if ctx.Err() == nil {
			s.cfg.Logger.WarnContext(ctx, "the log of watch messages cannot be read", "resource", kind.GroupResource().String(), "err", err)
		}
		return refusal(watchv1.HistoryOutcome_HISTORY_OUTCOME_NOT_YET, "the log cannot be read now")
	}
	return page
}

func (s *Server) send(ctx context.Context, reply string, page *watchv1.HistoryPage) {
	data, err := proto.Marshal(page)
	if err == nil {
		err = s.cfg.Bus.Publish(ctx, reply, data)
	}
	if err != nil {
		if ctx.Err() == nil {
			s.cfg.Logger.WarnContext(ctx, "sending a page of history failed", "reply", reply, "err", err)
		}
		return
	}
	s.pages.WithLabelValues(page.GetOutcome().String()).Inc()
}
