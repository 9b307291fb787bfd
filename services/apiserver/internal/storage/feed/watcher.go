package feed

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/libs/fabric"
)

// watchBatches is how many batches may wait for a watcher before it is cut off.
const watchBatches = 512

// ErrSlow reports that a watcher was cut off because it did not keep up.
var ErrSlow = errors.New("the watcher was too slow")

// Watcher receives the changes of a view. The feed cuts off a watcher that does not keep up; it
// never delays the feed or other watchers.
type Watcher struct {
	feed    *Feed
	view    fabric.View
	index   fabric.View
	from    int64
	batches chan Batch
	release func() bool
	history fabric.History

	ended bool // these two under the feed's lock
	err   error
}

// Watch reports what happens in a view after revision from, which may be in the future, until ctx
// ends. It returns a Kubernetes 410 Expired if from is before the feed's window. It waits up to 3 s
// for a feed that cannot be read yet.
func (f *Feed) Watch(ctx context.Context, view fabric.View, from int64) (*Watcher, error) {
	if err := f.await(ctx, 0); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.readable() {
		return nil, apierrors.NewTooManyRequests("storage is (re)initializing", retrySeconds)
	}
	if from < f.state.start {
		return nil, apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", from, f.state.start))
	}
	return f.watchLocked(ctx, view, from), nil
}

func (f *Feed) watchLocked(ctx context.Context, view fabric.View, from int64) *Watcher {
	w := &Watcher{feed: f, view: view, index: f.state.index(view), from: from, batches: make(chan Batch, watchBatches), history: f.state.history}
	if f.state.through > from {
		missed := Batch{Revision: f.state.through, Head: f.state.head(fabric.View{}), Start: f.state.start}
		for _, event := range f.state.after(from) {
			if event.touches(view) {
				missed.Events = append(missed.Events, event)
			}
		}
		w.batches <- missed
	}
	if f.watchers[w.index] == nil {
		f.watchers[w.index] = map[*Watcher]struct{}{}
	}
	f.watchers[w.index][w] = struct{}{}
	w.release = context.AfterFunc(ctx, w.Stop)
	return w
}

// Events delivers what happens, in the order of revisions; the first batch holds everything since
// from. The channel is closed when the watch ends.
func (w *Watcher) Events() <-chan Batch { return w.batches }

// History returns the history of all revisions of the watch.
func (w *Watcher) History() fabric.History { return w.history }

// Err returns why Events was closed: ErrSlow, or that the feed had to start over; nil if Stop was
// called or ctx ended. A caller that watches again from the last revision it received misses
// nothing, or gets a 410.
func (w *Watcher) Err() error {
	w.feed.mu.Lock()
	defer w.feed.mu.Unlock()
	if errors.Is(w.err, errStopped) {
		return nil
	}
	return w.err
}

// Stop ends the watch. It may be called more than once.
func (w *Watcher) Stop() {
	w.feed.mu.Lock()
	defer w.feed.mu.Unlock()
	w.endLocked(errStopped)
}

func (w *Watcher) endLocked(err error) {
	if w.ended {
		return
	}
	w.ended, w.err = true, err
	if w.release != nil {
		w.release()
	}
	set := w.feed.watchers[w.index]
	delete(set, w)
	if len(set) == 0 {
		delete(w.feed.watchers, w.index)
	}
	close(w.batches)
}

// notify sends the events of one revision to the watchers whose views they touch.
func (f *Feed) notify(revision int64, events []*Event) {
	f.metrics.dispatched.WithLabelValues(f.kind.Group, f.kind.Resource).Add(float64(len(events)))
	mine := map[*Watcher][]*Event{}
	for _, event := range events {
		indexes := append(f.state.partsOf(event.Namespace, event.Scope), fabric.View{})
		if event.OldScope != event.Scope {
			indexes = append(indexes, fabric.View{Scope: event.OldScope})
		}
		for _, index := range indexes {
			for w := range f.watchers[index] {
				if revision > w.from && event.touches(w.view) {
					mine[w] = append(mine[w], event)
				}
			}
		}
	}
	for w, events := range mine {
		select {
		case w.batches <- Batch{Revision: revision, Head: revision, Start: f.state.start, Events: events}:
		default:
			f.metrics.terminated.WithLabelValues(f.kind.Group, f.kind.Resource).Inc()
			w.endLocked(ErrSlow)
		}
	}
}

// notifyProgress tells all watchers how far the feed is. A watcher that is too busy to receive it
// loses nothing.
func (f *Feed) notifyProgress() {
	batch := Batch{Revision: f.state.through, Head: f.state.head(fabric.View{}), Start: f.state.start}
	for _, set := range f.watchers {
		for w := range set {
			if batch.Revision < w.from {
				continue
			}
			select {
			case w.batches <- batch:
			default:
			}
		}
	}
}
