package simulation_test

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/protobuf/proto"

	watchv1 "github.com/garboard/garboard/proto/watch/v1"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/publish"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/respond"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

var quiet = slog.New(slog.DiscardHandler)

// apiserver is one process: a feed, a responder, and a publisher while it leads.
type apiserver struct {
	world     *world
	conn      *connection
	feed      *feed.Stepper
	responder *respond.Stepper
	publisher *publish.Stepper
	// begun reports whether the publisher watches the feed; waits is until when it waits for the
	// feed to reach the log's position.
	begun bool
	waits time.Time
	// phase is when in each 5 s the apiserver checks whether etcd has another history.
	phase int
	// stopped is until when SIGSTOP lasts; leads is until when the apiserver leads.
	stopped, leads time.Time
	waiting        []*waiting
	// gone reports whether the process has ended.
	gone bool
}

// waiting is an ask that waits for the feed.
type waiting struct {
	inquiry *respond.Inquiry
	until   time.Time
	reply   func(messages [][]byte)
}

// newApiserver starts a process.
func newApiserver(w *world) *apiserver {
	a := &apiserver{world: w, conn: &connection{etcd: w.etcd, life: w.etcd.now()}, phase: w.rand.IntN(100)}
	a.feed = feed.NewStepper(feed.Config{
		Logger: quiet, WindowEvents: w.window, WindowBytes: 1 << 30, History: int64(w.rand.IntN(2 * w.window)),
	}, a.conn, podKind)
	a.responder = respond.NewStepper(respond.Config{
		Storage: a.conn, Feeds: a.feed.Feeds(), Table: table, Bus: &line{w.network, w.answerPayload}, Logger: quiet,
	}, func() time.Time { return w.now })
	return a
}

// connect follows the current etcd.
func (a *apiserver) connect() {
	if a.conn.cut {
		return
	}
	known := a.feed.Feed().Through() > 0
	a.conn.life = a.world.etcd.now()
	if known {
		if holds, err := a.feed.Check(a.world.ctx); err == nil && holds {
			return
		}
	}
	a.open()
}

func (a *apiserver) open() {
	a.feed.Forget()
	if err := a.feed.Open(a.world.ctx); err != nil && !errors.Is(err, errCut) {
		a.world.fail("opening a feed: %v", err)
	}
}

func (a *apiserver) readable() bool {
	_, through := a.feed.Feed().Window()
	return through > 0
}

// follow applies what etcd reports.
func (a *apiserver) follow() {
	w := a.world
	if a.conn.cut || a.conn.life != w.etcd.now() && !w.chance(w.leave) {
		return // nothing comes from a life that is over, but the apiserver does not know that
	}
	if a.conn.life != w.etcd.now() || a.feed.Feed().Through() == 0 {
		a.connect()
		return
	}
	if a.feed.Over() {
		a.open()
	}
	if (w.steps+a.phase)%100 == 0 {
		if same, err := a.feed.Look(w.ctx); err == nil && !same {
			a.open()
		}
	}
	update, some, err := a.conn.next(a.feed.Feed().Through(), 1+w.rand.IntN(3))
	if compacted := (*store.CompactedError)(nil); errors.As(err, &compacted) {
		a.open()
		return
	}
	if !some {
		if !w.chance(w.progress) {
			return
		}
		update.Revision = a.conn.life.head()
	}
	if !a.feed.Apply(update) {
		a.connect()
	}
}

// catchUp applies everything that etcd has to report.
func (a *apiserver) catchUp() {
	for {
		update, some, err := a.conn.next(a.feed.Feed().Through(), 100)
		if err != nil || !some || !a.feed.Apply(update) {
			return
		}
	}
}

// lead makes the apiserver a new publisher until some time.
func (a *apiserver) lead(until time.Time) {
	w := a.world
	if a.publisher != nil {
		a.publisher.End()
	}
	var log publish.Log
	if !w.noLog {
		log = w.journal
	}
	a.leads, a.begun, a.waits = until, false, time.Time{}
	a.publisher = publish.NewStepper(publish.Config{
		Feeds: a.feed.Feeds(), Bus: &line{w.network, w.messagePayload}, Logger: quiet,
	}, podKind, log)
}

// publish performs the publisher's next step.
func (a *apiserver) publish() {
	w := a.world
	if a.publisher == nil || w.mute && w.quiet {
		return
	}
	if w.now.After(a.leads) {
		a.publisher.End()
		a.publisher = nil
		return
	}
	if !a.begun && a.readable() {
		err := a.publisher.Begin(w.ctx, a.waits.IsZero() || w.now.Before(a.waits))
		if errors.Is(err, publish.ErrAhead) && a.waits.IsZero() {
			a.waits = w.now.Add(5 * time.Second)
		}
		a.begun = err == nil
	}
	for a.begun {
		done, err := a.publisher.Step(w.ctx, w.now)
		if err != nil {
			a.begun, a.waits = false, time.Time{}
		}
		if done || w.chance(w.lag) {
			return
		}
	}
}

// ask accepts an ask from the network.
func (a *apiserver) ask(data []byte, reply func(messages [][]byte)) {
	ask := &watchv1.Ask{}
	if err := proto.Unmarshal(data, ask); err != nil {
		a.world.fail("an ask: %v", err)
		return
	}
	inquiry, said := a.responder.Ask(a.world.ended, podKind, ask)
	if inquiry == nil {
		reply(said)
		return
	}
	a.waiting = append(a.waiting, &waiting{inquiry: inquiry, until: a.world.now.Add(3 * time.Second), reply: reply})
}

// answer answers the asks for which the feed is far enough, or which have waited too long.
func (a *apiserver) answer() {
	var still []*waiting
	for _, one := range a.waiting {
		if !one.inquiry.Ready() && a.world.now.Before(one.until) {
			still = append(still, one)
			continue
		}
		one.reply(one.inquiry.Answer(a.world.ctx))
	}
	a.waiting = still
}

// step runs one step of a running process.
func (a *apiserver) step() {
	w := a.world
	if w.now.Before(a.stopped) {
		return
	}
	for range 3 {
		if !w.chance(w.lag) {
			a.follow()
		}
	}
	a.publish()
	a.answer()
}

// endedContext returns a context that has ended: nothing waits on it.
func endedContext(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}
