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
		f.logger.Warn("following over HTTP until the bus answers", "revision", m.at.Revision)
	default:
		return
	}
	if !m.fallback || ctx.Err() != nil {
		return
	}
	newest = m.newest() // A forgotten history counts too.
	var from int64
	if m.synced && !m.rebuild && m.at.History == newest {
		from = m.at.Revision
	}
	life, stop := context.WithCancel(ctx)
	s := &httpSink{follower: f, history: newest, unsaid: newest, position: from, stop: stop, ended: life.Done()}
	watcher := f.http.Resume(f.kind, f.view, s, newest, from)
	f.stopHTTP, f.httpOf, f.require = stop, newest, watcher.Require
	f.beside(func() {
		defer stop()
		if err := watcher.Run(life); err != nil {
			f.logger.Error("cannot follow over HTTP", "err", err)
		}
	})
}

var (
	_ informer.Notices    = (*httpSink)(nil)
	_ informer.Continuity = (*httpSink)(nil)
)

// httpSink passes what a watch over HTTP reports to the machine, as statements.
type httpSink struct {
	follower *follower
	// history is the history of what is reported; unsaid that of servers that do not name one.
	history, unsaid fabric.History
	position        int64
	stop            context.CancelFunc
	// ended is closed when the bus has taken over.
	ended <-chan struct{}
}

// History names the history of the next whole view and of everything after it.
func (s *httpSink) History(of string) {
	s.history = s.unsaid
	if h, err := fabric.ParseHistory(of); err == nil {
		s.history = h
	}
}

// Confirmed is never called: over HTTP, only content known to hold is resumed.
func (s *httpSink) Confirmed() {}

// Replace states what the whole view is.
func (s *httpSink) Replace(objects []informer.Object, revision int64) {
	s.position = revision
	s.do(func(now time.Time) {
		if m := s.follower.machine; s.history.Compare(m.newest()) < 0 && now.Sub(m.spoken) >= fabric.HistoryGrace {
			m.abandon(now) // HTTP has heard of no newer history for that long, either.
		}
		if s.follower.machine.replace(s.history, objects, revision, false) {
			s.follower.httpOf = s.history
		}
	})
}

// Apply states what happened since the last call.
func (s *httpSink) Apply(changes []informer.Change, revision int64) {
	prev := s.position
	s.position = revision
	s.do(func(now time.Time) {
		s.follower.machine.noteHistory(now, s.history, false)
		if len(changes) > 0 && revision <= prev {
			// A second part of a revision came late; the first part was taken for the whole.
			s.follower.machine.rebuild = true
			s.stop()
			s.follower.stopHTTP = nil
			return
		}
		s.follower.machine.changes(statement{History: s.history, Prev: prev, Revision: revision, Changes: changes})
	})
}

// Known does nothing: the bus reports more than HTTP does.
func (s *httpSink) Known(int64) {}

// WatchError reports why HTTP does not work either.
func (s *httpSink) WatchError(ctx context.Context, err error) {
	if notices, ok := s.follower.machine.sink.(informer.Notices); ok {
		notices.WatchError(ctx, err)
	}
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
