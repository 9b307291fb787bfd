package respond

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
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
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
)

const (
	// drainTimeout is how long answers may take when a Responder shuts down.
	drainTimeout = 2 * time.Second
	// queue is the queue group in which one member receives each ask.
	queue = "apiservers"
	// patience is how long an ask waits for the feed.
	patience = 3 * time.Second
	// concurrent is how many asks are processed at once, concurrentEach the same for one user;
	// other askers are told to ask again.
	concurrent, concurrentEach = 256, 128
	// askRate is how many asks per second one user may send in the long run, and askBurst how many
	// at once: more than a client with 2,000 views that has lost its connection. A user that sends
	// more gets the answer "not yet" toldRate times a second, and otherwise no answer.
	askRate, askBurst, toldRate = 500, 4000, 10
	// askBytes is the largest ask. No field of an ask is longer than a name.
	askBytes = 16 << 10
)

// Storage is what a responder needs of etcd: *store.Store.
type Storage interface {
	RevisionOf(ctx context.Context, kind *scheme.Kind) (int64, error)
}

// Bus carries asks and answers: *bus.Conn.
type Bus interface {
	QueueSubscribe(ctx context.Context, subject, queue string, handler func(bus.Message), opts ...bus.SubscribeOption) (*bus.Subscription, error)
	Publish(ctx context.Context, subject string, data []byte) error
	MaxPayload() int64
}

// Config configures a Responder.
type Config struct {
	// Storage is etcd; required.
	Storage Storage
	// Feeds are the source of the answers; required.
	Feeds *feed.Feeds
	// Table is the set of kinds; required.
	Table *scheme.Table
	// Bus carries asks and answers; required.
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
	// Registerer receives the responder's metrics; if nil there are none.
	Registerer prometheus.Registerer
}

// Responder answers asks.
type Responder struct {
	cfg     Config
	cache   *answerCache
	metrics *metrics
	limiter *inflight.Limiter
	rates   rates
}

// New returns a responder. Nothing happens before Run.
func New(cfg Config) *Responder {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	r := &Responder{
		cfg: cfg, cache: newAnswerCache(),
		metrics: newMetrics(cfg.Registerer, cfg.Table), limiter: inflight.New(concurrent, concurrentEach),
	}
	return r
}

// Run answers asks until ctx ends. It still answers asks that have arrived by then, for at most
// drainTimeout. It returns when no answer is in progress.
func (r *Responder) Run(ctx context.Context) error {
	ended := ctx.Done()
	ctx, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	var work sync.WaitGroup
	defer work.Wait()
	sub, err := r.cfg.Bus.QueueSubscribe(ctx, subject.AllAsks(), queue, func(m bus.Message) {
		asker, ask, ok := r.read(m)
		if !ok {
			return
		}
		user := asker.User()
		if ok, notify := r.rates.allow(user, time.Now()); !ok {
			r.metrics.refused.WithLabelValues("rate").Inc()
			if notify {
				r.send(ctx, m.Reply, outcome(watchv1.Outcome_OUTCOME_NOT_YET, nil, "too many asks; try again later"))
			}
			return
		}
		if !r.limiter.TryAcquire(user) {
			r.send(ctx, m.Reply, outcome(watchv1.Outcome_OUTCOME_NOT_YET, nil, "this apiserver is too busy"))
			return
		}
		work.Go(func() {
			defer r.limiter.Release(user)
			r.answer(ctx, m.Reply, asker, ask)
		})
	})
	if err != nil {
		return fmt.Errorf("listening for asks: %w", err)
	}
	ticker := time.NewTicker(sharedFor)
	defer ticker.Stop()
	for {
		select {
		case <-ended:
			defer time.AfterFunc(drainTimeout, cut).Stop()
			sub.Drain()
			<-sub.Done()
			work.Wait()
			return nil
		case now := <-ticker.C:
			r.cache.sweep(now)
			r.rates.sweep(now)
			r.metrics.sweep()
		}
	}
}

// read decodes an ask from a message, and the asker from the message's subject, which NATS
// enforces: R4. An ask gets no answer if its reply subject is not an inbox of the asker, or if it
// contradicts its subject: a responder may publish where an asker may not.
func (r *Responder) read(m bus.Message) (subject.Client, *watchv1.Ask, bool) {
	refuse := func(why string) (subject.Client, *watchv1.Ask, bool) {
		r.metrics.refused.WithLabelValues(why).Inc()
		r.cfg.Logger.Debug("refused an ask", "reason", why, "subject", m.Subject, "reply", m.Reply)
		return subject.Client{}, nil, false
	}
	asker, err := subject.ParseClient(m.Subject)
	if err != nil {
		return refuse("subject")
	}
	if !asker.Owns(m.Reply) {
		return refuse("reply")
	}
	if len(m.Data) > askBytes {
		return refuse("size")
	}
	ask := &watchv1.Ask{}
	if err := proto.Unmarshal(m.Data, ask); err != nil {
		return refuse("encoding")
	}
	if m.Subject != asker.Ask(ask.GetGroup(), ask.GetResource()) {
		return refuse("subject")
	}
	return asker, ask, true
}

// answer waits until the feed can answer, and sends the answer.
func (r *Responder) answer(ctx context.Context, reply string, asker subject.Client, ask *watchv1.Ask) {
	chunks, what := r.audited(ctx, asker, ask)
	if ctx.Err() != nil || chunks == nil {
		return
	}
	r.metrics.answered(schema.GroupResource{Group: ask.GetGroup(), Resource: ask.GetResource()}, strings.TrimPrefix(what.String(), "OUTCOME_"))
	r.send(ctx, reply, chunks)
}

// audited is decide plus an audit record of the ask and the decision.
func (r *Responder) audited(ctx context.Context, asker subject.Client, ask *watchv1.Ask) (*encoded, watchv1.Outcome) {
	if r.cfg.Audit == nil {
		return r.decide(ctx, asker, ask)
	}
	ctx, done, err := r.cfg.Audit(ctx, asker, ask)
	if err != nil {
		return outcome(watchv1.Outcome_OUTCOME_NOT_YET, nil, err.Error()), watchv1.Outcome_OUTCOME_NOT_YET
	}
	said, what := r.decide(ctx, asker, ask)
	code, reason := http.StatusOK, ""
	switch {
	case said == nil || what == watchv1.Outcome_OUTCOME_NOT_YET:
		code, reason = http.StatusGatewayTimeout, "there is no answer yet"
	case what == watchv1.Outcome_OUTCOME_FORBIDDEN:
		code, reason = http.StatusForbidden, said.reason
	case what == watchv1.Outcome_OUTCOME_NOT_FOUND:
		code, reason = http.StatusNotFound, said.reason
	}
	done(code, reason)
	return said, what
}

func (r *Responder) decide(ctx context.Context, asker subject.Client, ask *watchv1.Ask) (*encoded, watchv1.Outcome) {
	end := func(what watchv1.Outcome, reason string) (*encoded, watchv1.Outcome) {
		return outcome(what, nil, reason), what
	}
	kind := r.cfg.Table.Stored(schema.GroupResource{Group: ask.GetGroup(), Resource: ask.GetResource()})
	if kind == nil {
		r.metrics.refused.WithLabelValues("resource").Inc()
		return end(watchv1.Outcome_OUTCOME_NOT_FOUND, scheme.ErrRemoved.Error())
	}
	if r.cfg.Authorize != nil {
		if err := r.cfg.Authorize(ctx, asker, ask); err != nil {
			return end(watchv1.Outcome_OUTCOME_FORBIDDEN, err.Error())
		}
	}
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	q, said := r.question(bounded, kind, ask)
	if said != nil {
		return said, said.outcome
	}
	if q.feed == nil {
		return nil, watchv1.Outcome_OUTCOME_UNSPECIFIED
	}
	// If the wait is too long, conclude answers "not yet".
	switch err := q.feed.WaitFor(bounded, q.minimum); {
	case errors.Is(err, scheme.ErrRemoved):
		return end(watchv1.Outcome_OUTCOME_NOT_FOUND, scheme.ErrRemoved.Error())
	case err != nil && ctx.Err() != nil:
		return nil, watchv1.Outcome_OUTCOME_UNSPECIFIED
	}
	said = r.conclude(ctx, q)
	return said, said.outcome
}

func (r *Responder) send(ctx context.Context, reply string, chunks *encoded) {
	for _, data := range chunks.tagged() {
		if err := r.cfg.Bus.Publish(ctx, reply, data); err != nil {
			if ctx.Err() == nil {
				r.cfg.Logger.WarnContext(ctx, "sending an answer failed", "reply", reply, "err", err)
			}
			return // the asker discards an incomplete answer
		}
	}
}
