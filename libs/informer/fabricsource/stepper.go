package fabricsource

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/fabric/wire"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/listwatch"
	"github.com/garboard/garboard/libs/scheme"
)

// StepperConfig configures a Stepper. All fields are required except HTTP, Unanswered, Buffer and
// Logger.
type StepperConfig struct {
	// Table decodes objects, Kind and View name what is followed, Sink receives the content.
	Table *scheme.Table
	Kind  *scheme.Kind
	View  informer.View
	Sink  informer.Sink
	// Random returns a duration below its argument.
	Random func(time.Duration) time.Duration
	// HTTP lists, and takes over after Unanswered without an answer; 0 means the limit of other
	// followers. Without HTTP, it never takes over.
	HTTP       *listwatch.Source
	Unanswered time.Duration
	// Buffer is how many early messages are kept; 0 means the limit of other followers.
	Buffer int
	// Logger may be nil.
	Logger *slog.Logger
}

// Stepper is a follower without a bus, a clock and goroutines. Its owner passes in what arrives,
// takes out what it asks, and sets the time. Every decision is made by the same code as in real
// followers. It is for simulations, and only one goroutine may use it at a time.
type Stepper struct {
	follower *follower
	now      time.Time
	work     []func()
	http     steppedHTTP
}

// NewStepper creates a follower that waits for Start.
func NewStepper(cfg StepperConfig) *Stepper {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	counts := newMetrics(nil).of(cfg.Kind.GroupResource().String())
	s := &Stepper{http: steppedHTTP{source: cfg.HTTP}}
	s.follower = &follower{
		http: &s.http, kind: cfg.Kind, view: cfg.View, count: counts, logger: cfg.Logger,
		reader:  reader{table: cfg.Table, kind: cfg.Kind, view: cfg.View},
		machine: newMachine(cfg.Sink, cfg.View == informer.View{}, cfg.Random, counts),
		wake:    make(chan struct{}, 1),
		clock:   func() time.Time { return s.now },
		spawn:   func(work func()) { s.work = append(s.work, work) },
		beside:  func(func()) {}, // The HTTP follower is stepped too.
	}
	m := s.follower.machine
	m.buffer.limit, m.limit = cfg.Buffer, cmp.Or(cfg.Unanswered, m.limit)
	return s
}

// Start reports that the subscriptions to Subjects are in force (I1).
func (s *Stepper) Start(now time.Time) { s.at(now).machine.start(now) }

// Subjects returns the subjects to subscribe to.
func (s *Stepper) Subjects() []string {
	return wire.Subjects(s.follower.kind.GroupResource(), s.follower.view)
}

// Message delivers a watch message.
func (s *Stepper) Message(now time.Time, subject string, data []byte) {
	s.at(now).message(bus.Message{Subject: subject, Data: data})
}

// Answer delivers a message of the answer to the ask with a number.
func (s *Stepper) Answer(now time.Time, number uint64, data []byte) {
	s.at(now).part(context.Background(), number, bus.Message{Data: data})
}

// Disturbed reports that messages may have been lost (I4).
func (s *Stepper) Disturbed(now time.Time) { s.at(now).machine.disturbed(now) }

// Require asks for content at or above a revision (I7).
func (s *Stepper) Require(now time.Time, revision int64) { s.at(now).Require(revision) }

// Tick does what is due, and returns the ask to send now, if any, and its number.
func (s *Stepper) Tick(now time.Time) (ask []byte, number uint64, send bool, err error) {
	a, number, send := s.at(now).due(now)
	if !send {
		return nil, 0, false, nil
	}
	ask, err = s.follower.reader.ask(a)
	return ask, number, err == nil, err
}

// HTTP does what is due over HTTP, if HTTP has taken over or is about to. It reports whether it
// has, and returns the error of that work. The simulation calls End when the process ends.
func (s *Stepper) HTTP(ctx context.Context, now time.Time) (over bool, err error) {
	f := s.at(now)
	if s.http.source != nil {
		f.chooseWay(ctx)
	}
	if f.stopHTTP == nil {
		s.End()
		return false, nil
	}
	return true, s.http.current.Step(ctx)
}

// End closes what is open over HTTP.
func (s *Stepper) End() {
	if s.http.current != nil {
		s.http.current.End()
	}
}

// List makes the pending lists over HTTP, and reports whether there were any.
func (s *Stepper) List(now time.Time) bool {
	s.at(now)
	work := s.work
	s.work = nil
	for _, do := range work {
		do()
	}
	return len(work) > 0
}

// Position returns the position of which the sink holds the content. synced is false before there
// was any content.
func (s *Stepper) Position() (at fabric.Position, synced bool) {
	m := s.follower.machine
	return m.at, m.synced
}

// Buffered returns how many messages wait for earlier ones.
func (s *Stepper) Buffered() int { return len(s.follower.machine.buffer.statements) }

func (s *Stepper) at(now time.Time) *follower {
	s.now = now
	return s.follower
}

// steppedHTTP is HTTP whose followers are stepped by their owner, one at a time.
type steppedHTTP struct {
	source  *listwatch.Source
	current *listwatch.Stepper
}

func (h *steppedHTTP) List(ctx context.Context, kind *scheme.Kind, view informer.View, minimum int64) (listwatch.Listing, error) {
	if h.source == nil {
		return listwatch.Listing{}, errors.New("no HTTP source is configured")
	}
	return h.source.List(ctx, kind, view, minimum)
}

func (h *steppedHTTP) Resume(kind *scheme.Kind, view informer.View, sink informer.Sink, at fabric.Position) informer.Follower {
	if h.current != nil {
		h.current.End()
	}
	h.current = h.source.Stepper(kind, view, sink, at)
	return h.current
}
