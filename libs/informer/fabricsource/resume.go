package fabricsource

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
)

// refresh asks for content as new as etcd is now. The content is that new once refreshed reaches
// the returned number.
func (m *machine) refresh(now time.Time) uint64 {
	m.refreshes++
	m.fresh = true
	m.plan(now, 0)
	return m.refreshes
}

// confirm records that the current answer was applied and was as new as etcd at the time of the
// ask. It reports whether a caller was waiting for that.
func (m *machine) confirm(h fabric.History, revision int64) bool {
	if !m.asking || !m.current.fresh || !m.synced || h != m.at.History || m.at.Revision < revision {
		return false
	}
	if m.unconfirmed {
		m.unconfirmed = false
		m.sink.Confirmed()
	}
	if m.current.refresh <= m.refreshed {
		return false
	}
	m.refreshed = m.current.refresh
	return true
}

// resume starts from the content of an earlier process; it is called before start.
func (m *machine) resume(at fabric.Position, objects []informer.Object) {
	m.index = newIndex(len(objects))
	for _, obj := range objects {
		m.index.put(obj.GetNamespace(), obj.GetName(), string(obj.GetUID()), revisionOf(obj))
	}
	m.at, m.synced, m.unconfirmed = at, true, true
}

// forget drops content that was resumed but not confirmed. HTTP may name no history, so a watch
// from an old position might belong to another life of etcd. Older histories stay over.
func (m *machine) forget() {
	m.hear(m.at.History, 0, 0)
	m.at, m.synced, m.unconfirmed = fabric.Position{}, false, false
	m.index = newIndex(0)
}

// waiter is a pending call of Refresh.
type waiter struct {
	number uint64
	done   chan error
}

// Refresh returns when the content is at least as new as etcd was at the call. While HTTP has taken
// over, no apiserver can be asked: the error is informer.ErrNotFresh.
func (f *follower) Refresh(ctx context.Context) error {
	w := waiter{done: make(chan error, 1)}
	f.do(func(now time.Time) {
		if f.machine.fallback {
			w.done <- informer.ErrNotFresh
			return
		}
		w.number = f.machine.refresh(now)
		f.waiters = append(f.waiters, w)
	})
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		f.mu.Lock()
		f.waiters = slices.DeleteFunc(f.waiters, func(other waiter) bool { return other.done == w.done })
		f.mu.Unlock()
		return fmt.Errorf("waiting for fresh content of %s: %w", f.kind.GroupResource(), context.Cause(ctx))
	}
}

// Resumes returns true.
func (*follower) Resumes() bool { return true }

// Resume makes Run start from the content of an earlier process, which an ask then brings up to date.
func (f *follower) Resume(at fabric.Position, objects []informer.Object) error {
	if at.History.IsZero() || at.Revision <= 0 {
		return fmt.Errorf("resuming %s at revision %d of history %q: invalid revision or history", f.kind.GroupResource(), at.Revision, at.History)
	}
	f.do(func(time.Time) { f.machine.resume(at, objects) })
	return nil
}

// answered ends an ask. The caller holds mu.
func (f *follower) answered(now time.Time, h fabric.History, revision int64, moved bool) {
	m := f.machine
	confirmed := m.confirm(h, revision)
	m.answered(now, moved || confirmed)
	if !confirmed {
		return
	}
	waiting := f.waiters[:0]
	for _, w := range f.waiters {
		if w.number > m.refreshed {
			waiting = append(waiting, w)
			continue
		}
		w.done <- nil
	}
	clear(f.waiters[len(waiting):])
	f.waiters = waiting
}

// giveUp fails the pending Refresh calls with ErrNotFresh. The caller holds mu.
func (f *follower) giveUp() {
	for _, w := range f.waiters {
		w.done <- informer.ErrNotFresh
	}
	f.waiters = nil
}
