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
	"github.com/garboard/garboard/libs/scheme"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

const (
	// queue is the group of which one member gets each ask.
	queue = "apiservers"
	// concurrent is how many pages are read at once, concurrentEach for one user; more askers are
	// told to ask again.
	concurrent, concurrentEach = 8, 4
	// askBytes is the largest ask. Nothing in one is longer than a name.
	askBytes = 16 << 10
	// pageBytes is after how many bytes of messages a page ends, pageScan after how many
	// messages of the log, in the view or not, and pageTime after how long.
	pageBytes = 256 << 10
	pageScan  = 2000
	pageTime  = time.Second
	// patience is how long JetStream may take for one page.
	patience = 5 * time.Second
	// pageRoom is room for all of a page but its messages.
	pageRoom = 4 << 10
)

// Bus carries asks and pages: *bus.Conn.
type Bus interface {
	QueueSubscribe(ctx context.Context, subject, queue string, handler func(bus.Message), opts ...bus.SubscribeOption) (*bus.Subscription, error)
	Publish(ctx context.Context, subject string, data []byte) error
	MaxPayload() int64
}

// Log is what is read: *bus.LogReader.
type Log interface {
	Span(ctx context.Context) (bus.LogSpan, error)
	Next(ctx context.Context, subject string, from uint64) (bus.Logged, error)
	NextSince(ctx context.Context, subject string, since time.Time) (bus.Logged, error)
}

// Config says what is read and for whom.
type Config struct {
	// Table is the set of kinds; required.
	Table *scheme.Table
	// LogOf gives the log of a stored kind; required.
	LogOf func(kind *scheme.Kind) Log
	// Bus carries asks and pages; required.
	Bus Bus
	// Authorize says whether the asker may read the view: nil, or the reason why not, in
	// words for the asker. Nil allows all, which only a bus with trusted users may do.
	Authorize func(ctx context.Context, asker bus.Asker, ask *watchv1.Ask) error
	// Audit writes down that somebody asks. The context that it gives is that of Authorize; done ends
	// the record with the status code that HTTP would answer, and with the reason of a refusal. An
	// error says that the ask must not be answered. Nil writes nothing.
	Audit func(ctx context.Context, asker bus.Asker, ask *watchv1.Ask) (audited context.Context, done func(code int, reason string), err error)
	// Logger gets what no caller is told of; slog.Default if nil.
	Logger *slog.Logger
	// Registerer gets the metrics; none if nil.
	Registerer prometheus.Registerer
}

// Server answers asks for history.
type Server struct {
	cfg     Config
	kinds   map[schema.GroupResource]*scheme.Kind
	slots   *inflight.Places
	pages   *prometheus.CounterVec
	refused prometheus.Counter
}

// New makes a server. Nothing happens before Run.
func New(cfg Config) *Server {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	s := &Server{
		cfg: cfg, kinds: map[schema.GroupResource]*scheme.Kind{}, slots: inflight.New(concurrent, concurrentEach),
		pages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "garboard_history_pages_total", Help: "Pages of the log of watch messages that were asked for, by outcome.",
		}, []string{"outcome"}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "garboard_history_refused_total", Help: "Asks for history that got no answer, since they have no inbox of the asker or cannot be read.",
		}),
	}
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(s.pages, s.refused)
	}
	for _, kind := range cfg.Table.Kinds() {
		if kind.Stored() {
			s.kinds[kind.GroupResource()] = kind
		}
	}
	return s
}

// Run answers until ctx ends and all answers that were begun have ended.
func (s *Server) Run(ctx context.Context) error {
	var work sync.WaitGroup
	defer work.Wait()
	sub, err := s.cfg.Bus.QueueSubscribe(ctx, bus.AllHistorySubjects(), queue, func(m bus.Message) {
		asker, ask, err := read(m)
		if err != nil {
			s.refused.Inc()
			s.cfg.Logger.Debug("an ask for history is refused", "subject", m.Subject, "reply", m.Reply, "err", err)
			return
		}
		who := asker.User()
		if !s.slots.Take(who) {
			s.send(ctx, m.Reply, refusal(watchv1.HistoryOutcome_HISTORY_OUTCOME_NOT_YET, "this apiserver has too much to do"))
			return
		}
		work.Go(func() {
			defer s.slots.Leave(who)
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

// read takes an ask from a message, and who asks from its subject, to which NATS keeps him.
// What has no inbox of the asker to answer to gets no answer: R4.
func read(m bus.Message) (bus.Asker, *watchv1.HistoryAsk, error) {
	asker, err := bus.ParseAsker(m.Subject)
	if err != nil {
		return bus.Asker{}, nil, err
	}
	if !asker.Owns(m.Reply) {
		return bus.Asker{}, nil, errors.New("it is not to be answered at an inbox of the asker")
	}
	if len(m.Data) > askBytes {
		return bus.Asker{}, nil, fmt.Errorf("reading an ask for history: it has %d bytes", len(m.Data))
	}
	ask := &watchv1.HistoryAsk{}
	if err := proto.Unmarshal(m.Data, ask); err != nil {
		return bus.Asker{}, nil, fmt.Errorf("reading an ask for history: %w", err)
	}
	if m.Subject != asker.History(ask.GetGroup(), ask.GetResource()) {
		return bus.Asker{}, nil, errors.New("it is about another resource than its subject says")
	}
	return asker, ask, nil
}

func refusal(outcome watchv1.HistoryOutcome, reason string) *watchv1.HistoryPage {
	return &watchv1.HistoryPage{Outcome: outcome, Reason: reason}
}

// audited is page, with what was asked and decided written down.
func (s *Server) audited(ctx context.Context, asker bus.Asker, ask *watchv1.HistoryAsk) *watchv1.HistoryPage {
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
func (s *Server) page(ctx context.Context, asker bus.Asker, ask *watchv1.HistoryAsk, view *watchv1.Ask) *watchv1.HistoryPage {
	kind := s.kinds[schema.GroupResource{Group: ask.GetGroup(), Resource: ask.GetResource()}]
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
			s.cfg.Logger.WarnContext(ctx, "the log of watch messages cannot be read", "resource", kind.GroupResource().String(), "error", err)
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
			s.cfg.Logger.WarnContext(ctx, "sending a page of history", "reply", reply, "error", err)
		}
		return
	}
	s.pages.WithLabelValues(page.GetOutcome().String()).Inc()
}
