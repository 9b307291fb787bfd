package fabricsource

import (
	"context"
	"time"

	"github.com/garboard/garboard/libs/informer"
)

// chooseWay starts or ends HTTP list and watch as the machine wants. The bus is listened to
// all the time: whatever either says is a statement. The caller holds mu.
func (f *follower) chooseWay(ctx context.Context) {
	m := f.machine
	newest := m.newest()
	switch {
	case f.stopHTTP != nil && (!m.fallback || f.httpOf != newest):
		if !m.fallback {
			f.logger.Info("The bus answers again; leaving HTTP", "revision", m.position)
		}
		f.stopHTTP()
		f.stopHTTP, f.require = nil, nil
	case f.stopHTTP == nil && m.fallback:
		f.giveUp()
		if m.unconfirmed {
			m.forget()
		}
		f.count.fellBack()
		f.logger.Warn("Following over HTTP until the bus answers", "revision", m.position)
	default:
		return
	}
	if !m.fallback || ctx.Err() != nil {
		return
	}
	newest = m.newest() // What was forgotten counts.
	var from int64
	if m.synced && !m.rebuild && m.history == newest {
		from = m.position
	}
	life, stop := context.WithCancel(ctx)
	s := &httpSink{follower: f, history: newest, unsaid: newest, position: from, stop: stop, ended: life.Done()}
	watcher := f.http.Resume(f.kind, f.view, s, newest.id(), from)
	f.stopHTTP, f.httpOf, f.require = stop, newest, watcher.Require
	f.beside(func() {
		defer stop()
		if err := watcher.Run(life); err != nil {
			f.logger.Error("Cannot follow over HTTP", "err", err)
		}
	})
}

var (
	_ informer.Notices    = (*httpSink)(nil)
	_ informer.Continuity = (*httpSink)(nil)
)

// httpSink hands to the machine, as statements, what a watch over HTTP says.
type httpSink struct {
	follower *follower
	// history is that of what is said; unsaid that of what a server says who knows no histories.
	history, unsaid history
	position        int64
	stop            context.CancelFunc
	// ended is closed when the bus has taken over.
	ended <-chan struct{}
}

// History says of which history the next whole view is, and all that follows it.
func (s *httpSink) History(of string) {
	s.history = s.unsaid
	if h, err := parseHistory(of); err == nil {
		s.history = h
	}
}

// Confirmed does not come: nothing is resumed over HTTP that is not known to hold.
func (s *httpSink) Confirmed() {}

// Replace says what the whole view is.
func (s *httpSink) Replace(objects []informer.Object, revision int64) {
	s.position = revision
	s.do(func(now time.Time) {
		if m := s.follower.machine; s.history.compare(m.newest()) < 0 && now.Sub(m.spoken) >= outlived {
			m.abandon(now) // What follows over HTTP has heard of no newer one for so long, either.
		}
		if s.follower.machine.replace(s.history, objects, revision, false) {
			s.follower.httpOf = s.history
		}
	})
}

// Apply says what happened since the last call.
func (s *httpSink) Apply(changes []informer.Change, revision int64) {
	prev := s.position
	s.position = revision
	s.do(func(now time.Time) {
		s.follower.machine.told(now, s.history, false)
		if len(changes) > 0 && revision <= prev {
			// A second part of a revision came late; the first was taken for all of it.
			s.follower.machine.rebuild = true
			s.stop()
			s.follower.stopHTTP = nil
			return
		}
		s.follower.machine.changes(statement{history: s.history, prev: prev, revision: revision, changes: changes})
	})
}

// Known says nothing: the bus tells more of what there is to know.
func (s *httpSink) Known(int64) {}

// WatchError passes on why HTTP does not work either.
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
