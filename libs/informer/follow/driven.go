package follow

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
)

// DrivenConfig is what a Driven is made of; all of it is required but Logger and List.
type DrivenConfig struct {
	// Table decodes objects, Kind and View are what is followed, Sink takes the content.
	Table *scheme.Table
	Kind  *scheme.Kind
	View  informer.View
	Sink  informer.Sink
	// Random gives a time below its argument.
	Random func(time.Duration) time.Duration
	// List stands for a list over HTTP at or above a revision.
	List func(view informer.View, minimum int64) (objects []informer.Object, revision int64, err error)
	// Buffer is how many early messages are kept; as many as by other followers if 0.
	Buffer int
	// Logger may be nil.
	Logger *slog.Logger
}

// Driven is a follower without a bus, a clock and goroutines: its owner hands it what comes and
// takes what it asks, at the time that he says. All that it decides is decided by the code of
// the followers that run, but for the choice between the bus and HTTP, which is not made: it
// stays with the bus. It is for simulations, and is used by one goroutine at a time.
type Driven struct {
	follower *follower
	now      time.Time
	work     []func()
}

// NewDriven makes a follower that waits for Start.
func NewDriven(cfg DrivenConfig) *Driven {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	counts := newMetrics(nil).of(cfg.Kind.GroupResource().String())
	d := &Driven{}
	d.follower = &follower{
		http: driven{list: cfg.List}, kind: cfg.Kind, view: cfg.View, count: counts, logger: cfg.Logger,
		reader:  reader{table: cfg.Table, kind: cfg.Kind, view: cfg.View},
		machine: newMachine(cfg.Sink, cfg.View == informer.View{}, cfg.Random, counts),
		wake:    make(chan struct{}, 1),
		clock:   func() time.Time { return d.now },
		spawn:   func(work func()) { d.work = append(d.work, work) },
	}
	d.follower.machine.buffer.limit = cfg.Buffer
	return d
}

// Start says that the subscriptions to Subjects are in force: I1.
func (d *Driven) Start(now time.Time) { d.at(now).machine.start(now) }

// Subjects are what is to be subscribed to.
func (d *Driven) Subjects() []string { return d.follower.subjects() }

// Message takes a watch message.
func (d *Driven) Message(now time.Time, subject string, data []byte) {
	d.at(now).message(bus.Message{Subject: subject, Data: data})
}

// Answer takes a message of an answer to the ask of a number.
func (d *Driven) Answer(now time.Time, number uint64, data []byte) {
	d.at(now).part(context.Background(), number, bus.Message{Data: data})
}

// Disturbed says that messages may have been lost: I4.
func (d *Driven) Disturbed(now time.Time) { d.at(now).machine.disturbed(now) }

// Require asks for content at or above a revision: I7.
func (d *Driven) Require(now time.Time, revision int64) { d.at(now).Require(revision) }

// Tick does what is due, and gives the ask to be sent now, if any, and its number.
func (d *Driven) Tick(now time.Time) (ask []byte, number uint64, send bool, err error) {
	a, number, send := d.at(now).due(now)
	if !send {
		return nil, 0, false, nil
	}
	ask, err = d.follower.reader.ask(a)
	return ask, number, err == nil, err
}

// List makes the lists over HTTP that are under way, and reports whether there were any.
func (d *Driven) List(now time.Time) bool {
	d.at(now)
	work := d.work
	d.work = nil
	for _, do := range work {
		do()
	}
	return len(work) > 0
}

// Position is the revision of which the sink was given the content, and its history; synced is
// false before there was any.
func (d *Driven) Position() (created int64, nonce uint64, revision int64, synced bool) {
	m := d.follower.machine
	return m.history.created, m.history.nonce, m.position, m.synced
}

// Buffered is how many messages wait for what came before them.
func (d *Driven) Buffered() int { return len(d.follower.machine.buffer.statements) }

func (d *Driven) at(now time.Time) *follower {
	d.now = now
	return d.follower
}

// driven stands for HTTP.
type driven struct {
	list func(view informer.View, minimum int64) ([]informer.Object, int64, error)
}

func (h driven) List(_ context.Context, _ *scheme.Kind, view informer.View, minimum int64) ([]informer.Object, int64, error) {
	if h.list == nil {
		return nil, 0, errors.New("there is no HTTP")
	}
	return h.list(view, minimum)
}

func (h driven) Resume(*scheme.Kind, informer.View, informer.Sink, int64) informer.Follower {
	return nil
}
