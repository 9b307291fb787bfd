package feed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// epoch is one history of an etcd cluster as this process' feeds see it. When one feed finds that
// etcd was set back, all must start over.
type epoch struct {
	mu   sync.Mutex
	over chan struct{}
}

func newEpoch() *epoch { return &epoch{over: make(chan struct{})} }

// end returns a channel that is closed when the current epoch ends.
func (e *epoch) end() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.over
}

// next begins another epoch, unless another call did so since seen was returned.
func (e *epoch) next(seen <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if seen == e.over {
		close(e.over)
		e.over = make(chan struct{})
	}
}

// check asks etcd for a witness that it is still the etcd that the feed follows: its revision must
// be at least the feed's, and it must hold the last events that the feed saw. If not, it was set
// back to a backup without raising its revisions. Revisions then have another meaning from here on,
// and a new history begins: H2.
func (f *Feed) check(ctx context.Context, epoch <-chan struct{}) error {
	f.mu.Lock()
	if f.state == nil { // Its kind was removed.
		f.mu.Unlock()
		return scheme.ErrRemoved
	}
	through, history := f.state.through, f.state.history
	seen := witnesses(f.state.window)
	f.mu.Unlock()

	// Another feed or process may have found out, by events that this feed did not see. Everything
	// this feed knows may still hold, and what follows belongs to the new history.
	current, err := f.risen(ctx)
	if err != nil {
		return err
	}
	if f.leaves(ctx, current) {
		f.epoch.next(epoch)
		return errRestarted
	}
	now, err := f.storage.Revision(ctx)
	if err != nil {
		return err
	}
	holds := now >= through
	for _, event := range seen {
		if !holds {
			break
		}
		holds, err = f.storage.Holds(ctx, f.kind, store.Record{
			Namespace: event.Namespace, Name: event.Name, Revision: event.Revision, Deleted: event.Deleted, Raw: event.Raw, Digest: event.Digest,
		})
		if err != nil {
			return err
		}
	}
	if holds {
		return nil
	}
	return f.renew(ctx, epoch, history, history, now, through)
}

// ReadAnew reads everything anew, of this and all other feeds of the same etcd cluster: what this one holds differs from
// etcd.
func (f *Feed) ReadAnew() {
	f.mu.Lock()
	state := f.state
	f.mu.Unlock()
	if state != nil {
		f.epoch.next(state.epoch)
	}
}

// witnesses returns the latest event and, if that is a deletion, the latest event before it that is
// not: an object may be absent in another life of etcd too.
func witnesses(window []*Event) []*Event {
	var found []*Event
	for _, event := range slices.Backward(window) {
		switch {
		case event.unreadable: // This apparent deletion may be a value that cannot be read.
		case !event.Deleted:
			return append(found, event)
		case len(found) == 0:
			found = append(found, event)
		}
	}
	return found
}

// risen returns etcd's history. If it is older than one that the feed has had, etcd was restored
// from an earlier backup, and risen begins a new history: informers that know the newer one ignore
// older ones. H2.
func (f *Feed) risen(ctx context.Context) (fabric.History, error) {
	current, err := f.storage.History(ctx)
	if err != nil {
		return fabric.History{}, err
	}
	f.mu.Lock()
	newest := f.newest
	f.mu.Unlock()
	if !current.Before(newest) {
		return current, nil
	}
	renewed, err := f.storage.RenewHistory(ctx, newest)
	if err != nil {
		return fabric.History{}, err
	}
	f.logger.ErrorContext(ctx, "etcd came back with an older history: a new one begins",
		"found", fmt.Sprint(current), "old", fmt.Sprint(newest), "new", fmt.Sprint(renewed))
	return renewed, nil
}

// leaves reports whether the feed belongs to another history than etcd's.
func (f *Feed) leaves(ctx context.Context, current fabric.History) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state == nil || f.state.history == current {
		return false
	}
	f.logger.WarnContext(ctx, "etcd has another history", "old", fmt.Sprint(f.state.history), "new", fmt.Sprint(current))
	return true
}

// renew begins a new history in place of old, because etcd at revision now contradicts what was
// seen of it. own is the history of what the feed knows, which began in epoch. If own already is
// the new history, another process or feed was faster, and the epoch continues.
func (f *Feed) renew(ctx context.Context, epoch <-chan struct{}, own, old fabric.History, now, seen int64) error {
	renewed, err := f.storage.RenewHistory(ctx, old)
	if err != nil {
		return err
	}
	f.logger.ErrorContext(ctx, "etcd was set back: a new history begins",
		"revision", now, "seen", seen, "old", fmt.Sprint(old), "new", fmt.Sprint(renewed))
	if renewed != own {
		f.epoch.next(epoch)
	}
	return errRestarted
}

// ErrNotReady reports that a feed cannot be read at this moment, because it is being read anew. It
// says nothing about what etcd holds: ask again.
var ErrNotReady = errors.New("the watch cache is being read anew")

// Witness takes an observation of another process about the feed's history: etcd was at the
// record's revision and, if the record has a name, held it there. If its Raw is nil, any value will
// do. If etcd contradicts the observation, as it does if its history is older, etcd was set back: a
// new history begins, and Witness fails. H2. It fails with ErrNotReady if the feed has no history
// to compare with.
func (f *Feed) Witness(ctx context.Context, history fabric.History, record store.Record) error {
	f.mu.Lock()
	if !f.readable() {
		f.mu.Unlock()
		return ErrNotReady
	}
	own, epoch := f.state.history, f.state.epoch
	f.mu.Unlock()
	now, err := f.storage.Revision(ctx)
	if err != nil {
		return err
	}
	holds := now >= record.Revision && !own.Before(history)
	if holds && record.Name != "" {
		if holds, err = f.storage.Holds(ctx, f.kind, record); err != nil {
			return err
		}
	}
	if holds {
		return nil
	}
	return f.renew(ctx, epoch, own, history, now, record.Revision)
}
