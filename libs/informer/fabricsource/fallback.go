package fabricsource

import (
	"context"
	"time"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
)

// chooseWay starts or stops HTTP list and watch as the machine wants. The follower listens to the
// bus all the time: statements of either are valid. The caller holds mu.
func (f *follower) chooseWay(ctx context.Context) {
	m := f.machine
	newest := m.newest()
	switch {
	case f.stopHTTP != nil && (!m.fallback || f.httpOf != newest):
		if !m.fallback {
			f.logger.Info("the bus answers again; leaving HTTP", "revision", m.at.Revision)
		}
		f.stopHTTP()
		f.stopHTTP, f.require = nil, nil
	case f.stopHTTP == nil && m.fallback:
		f.giveUp()
		if m.unconfirmed {
			m.forget()
		}
		f.count.fellBack()
		f.logger.Warn("following over HTTP until the bus answers", "revision", m.at.Revision, "why", m.why)
	default:
		return
	}
	if !m.fallback || ctx.Err() != nil {
		return
	}
	newest = m.newest() // A forgotten history counts too.
	from := fabric.Position{History: newest}
	if m.synced && !m.rebuild && m.at.History == newest {
		from = m.at
	}
	life, stop := context.WithCancel(ctx)
	s := &httpSink{follower: f, at: from, unsaid: newest, stop: stop, ended: life.Done()}
	watcher := f.http.Resume(f.kind, f.view, s, from)
	f.stopHTTP, f.httpOf, f.require = stop, newest, watcher.Require
	f.beside(func() {
		defer stop()
		if err := watcher.Run(life); err != nil {
			f.logger.Error("cannot follow over HTTP", "err", err)
		}
	})
}

// httpSink passes what a watch over HTTP reports to the machine, as statements.
type httpSink struct {
	informer.SinkDefaults
	follower *follower
	// at is the position of what is reported; unsaid is the history of servers that do not name
	// one.
	at     fabric.Position
	unsaid fabric.History
	stop   context.CancelFunc
	// ended is closed when the bus has taken over.
	ended <-chan struct{}
}

// Replace states what the whole view is.
func (s *httpSink) Replace(at fabric.Position, objects []informer.Object) {
	if s.at = at; at.History.IsZero() {
		s.at.History = s.unsaid
	}
	s.do(func(now time.Time) {
		if m := s.follower.machine; s.at.History.Compare(m.newest()) < 0 && now.Sub(m.spoken) >= fabric.HistoryGrace {
			m.abandon(now) // HTTP has heard of no newer history for that long, either.
		}
		if s.follower.machine.replace(s.at.History, objects, s.at.Revision, false) {
			s.follower.httpOf = s.at.History
		}
		s.follower.machine.readable(now)
	})
}

// Apply states what happened since the last call.
func (s *httpSink) Apply(changes []informer.Change, revision int64) {
	prev := s.at.Revision
	s.at.Revision = revision
	s.do(func(now time.Time) {
		s.follower.machine.noteHistory(now, s.at.History, false)
		if len(changes) > 0 && revision <= prev {
			// A second part of a revision came late; the first part was taken for the whole.
			s.follower.machine.rebuild = true
			s.stop()
			s.follower.stopHTTP = nil
			return
		}
		s.follower.machine.changes(statement{History: s.at.History, Prev: prev, Revision: revision, Changes: changes})
	})
}

// WatchError reports why HTTP does not work either.
func (s *httpSink) WatchError(ctx context.Context, err error) {
	s.follower.machine.sink.WatchError(ctx, err)
}

// do changes the machine, unless the bus has taken over again.
func (s *httpSink) do(change func(now time.Time)) {
	s.follower.do(func(now time.Time) {
		select {
		case <-s.ended:
		default:
			change(now)
		}
	})
}
