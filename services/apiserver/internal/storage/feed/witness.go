package feed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// era is one history of an etcd cluster as the feeds of this process live in it. When one of
// them finds that etcd was set back, all must start anew.
type era struct {
	mu   sync.Mutex
	over chan struct{}
}

func newEra() *era { return &era{over: make(chan struct{})} }

// end gives a channel that is closed when the present era ends.
func (e *era) end() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.over
}

// next begins another era, unless that was done since seen was given out.
func (e *era) next(seen <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if seen == e.over {
		close(e.over)
		e.over = make(chan struct{})
	}
}

// check asks etcd for a witness that it is still the etcd that the feed follows: it must be
// at least where the feed is, and hold the last events that the feed saw. If not, it was set
// back to a backup without its revisions being raised; then revisions mean something else
// from here on, and a new history begins: H2.
func (f *Feed) check(ctx context.Context, era <-chan struct{}) error {
	f.mu.Lock()
	through, history := f.state.through, f.state.history
	seen := witnesses(f.state.window)
	f.mu.Unlock()

	// Others may have found it out, by what they saw and this feed did not: all that is known
	// here may still hold, and what comes is of the new history.
	current, err := f.risen(ctx)
	if err != nil {
		return err
	}
	if f.leaves(ctx, current) {
		f.era.next(era)
		return errRestarted
	}
	now, err := f.truth.Revision(ctx)
	if err != nil {
		return err
	}
	holds := now >= through
	for _, event := range seen {
		if !holds {
			break
		}
		holds, err = f.truth.Holds(ctx, f.kind, store.Record{
			Namespace: event.Namespace, Name: event.Name, Revision: event.Revision, Deleted: event.Deleted, Raw: event.Raw, Digest: event.Digest,
		})
		if err != nil {
			return err
		}
	}
	if holds {
		return nil
	}
	return f.renew(ctx, era, history, history, now, through)
}

// witnesses are the last event, and if that is a deletion the last one before it that is none:
// that an object is not there may well be so in another life of etcd too.
func witnesses(window []*Event) []*Event {
	var found []*Event
	for _, event := range slices.Backward(window) {
		switch {
		case event.unreadable: // What was taken for a deletion may be a value that cannot be read.
		case !event.Deleted:
			return append(found, event)
		case len(found) == 0:
			found = append(found, event)
		}
	}
	return found
}

// risen gives etcd's history. If that is older than one that the feed was of, etcd was restored from
// a backup of before, and a new one begins: who knows the newer takes nothing of an older. H2.
func (f *Feed) risen(ctx context.Context) (store.History, error) {
	current, err := f.truth.History(ctx)
	if err != nil {
		return store.History{}, err
	}
	f.mu.Lock()
	newest := f.newest
	f.mu.Unlock()
	if !current.Before(newest) {
		return current, nil
	}
	renewed, err := f.truth.RenewHistory(ctx, newest)
	if err != nil {
		return store.History{}, err
	}
	f.logger.ErrorContext(ctx, "etcd came back with an older history: a new one begins",
		"found", fmt.Sprint(current), "old", fmt.Sprint(newest), "new", fmt.Sprint(renewed))
	return renewed, nil
}

// leaves says whether the feed is of another history than etcd's.
func (f *Feed) leaves(ctx context.Context, current store.History) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state == nil || f.state.history == current {
		return false
	}
	f.logger.WarnContext(ctx, "etcd has another history", "old", fmt.Sprint(f.state.history), "new", fmt.Sprint(current))
	return true
}

// renew begins a new history in place of old, since etcd at revision now contradicts what was seen
// of it. own is the history of what the feed knows, which began in an era. If that already is the
// new history, another process or feed was faster, and the era goes on.
func (f *Feed) renew(ctx context.Context, era <-chan struct{}, own, old store.History, now, seen int64) error {
	renewed, err := f.truth.RenewHistory(ctx, old)
	if err != nil {
		return err
	}
	f.logger.ErrorContext(ctx, "etcd was set back: a new history begins",
		"revision", now, "seen", seen, "old", fmt.Sprint(old), "new", fmt.Sprint(renewed))
	if renewed != own {
		f.era.next(era)
	}
	return errRestarted
}

// ErrNotReady says that a feed cannot be read at this moment, since it is being read anew. It is
// no word on what etcd holds: ask again.
var ErrNotReady = errors.New("the watch cache is being read anew")

// Witness takes what another process has seen of the feed's history: that etcd was at a
// record's revision, and, if it has a name, held this record there; any value will do if its
// Raw is nil. If etcd contradicts it, as it does if its history is an older one, etcd was set back: a
// new history begins, and it fails. H2. It fails with ErrNotReady if the feed has no history to
// compare with.
func (f *Feed) Witness(ctx context.Context, history store.History, record store.Record) error {
	f.mu.Lock()
	if !f.readable() {
		f.mu.Unlock()
		return ErrNotReady
	}
	own, era := f.state.history, f.state.era
	f.mu.Unlock()
	now, err := f.truth.Revision(ctx)
	if err != nil {
		return err
	}
	holds := now >= record.Revision && !own.Before(history)
	if holds && record.Name != "" {
		if holds, err = f.truth.Holds(ctx, f.kind, record); err != nil {
			return err
		}
	}
	if holds {
		return nil
	}
	return f.renew(ctx, era, own, history, now, record.Revision)
}
