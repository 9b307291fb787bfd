package registry

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/registry/listing"
	"github.com/garboard/garboard/services/apiserver/internal/registry/selection"
	"github.com/garboard/garboard/services/apiserver/internal/storage/encoded"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
)

const (
	// bookmarkEvery is how often a watch with bookmarks gets one.
	bookmarkEvery = time.Minute
	// bookmarkBefore is how long before the end of a watch it gets the last one.
	bookmarkBefore = 2 * time.Second
)

// Sink receives the events of a watch.
type Sink interface {
	// Send receives an event, which it may buffer until Flush.
	Send(event Event) error
	// Flush reports that no other event is at hand.
	Flush() error
}

// Event is one event of a watch.
type Event struct {
	// Type is the type of the event.
	Type watch.EventType
	// Encodings are the encodings of the event's object; nil for an object that no other watch has.
	Encodings *encoded.Forms

	object  runtime.Object
	present kinds.Conversion // nil if the client gets object itself
}

// Object returns the event's object, which is shared and must not be modified: of the watched kind,
// or the Status of an ERROR. Its error means that the object cannot be converted to the watched kind.
func (e Event) Object() (runtime.Object, error) {
	if stored, ok := e.object.(scheme.Object); ok && e.present != nil {
		return e.present.One(stored)
	}
	return e.object, nil
}

// Watch is an open watch. Stop must be called.
type Watch struct {
	resource  *Resource
	selected  selection.Selection
	bookmarks bool

	initial []feed.Item // to be sent as ADDED
	end     bool        // the initial events end with a bookmark
	at      int64       // the revision up to which everything was sent
	failed  error       // to be sent instead of events

	watcher *feed.Watcher // nil if the watch failed
	pending bool          // something was sent and not flushed
}

// Watch follows the objects that opts selects in a namespace, or in all if it is empty. It begins
// as in Kubernetes: with resourceVersion unset or "0", or with sendInitialEvents, each existing
// object comes first as ADDED; with N exactly the changes after N follow. An object that enters or
// leaves the selection comes as ADDED or DELETED.
//
// As in Kubernetes, a watch that cannot be served, for example because N is too old, gets an ERROR
// event and no error. Watch returns an error only for an invalid request and for a feed that cannot
// be read yet.
func (r *Resource) Watch(ctx context.Context, namespace string, opts metav1.ListOptions) (*Watch, error) {
	if err := listing.Validate(opts, true); err != nil {
		return nil, err
	}
	selected, err := selection.Parse(r.strategy, namespace, opts)
	if err != nil {
		return nil, err
	}
	from, invalid := listing.ParseVersion(opts.ResourceVersion)
	if invalid != nil {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: r.kind.Group, Kind: r.kind.Resource}, "", field.ErrorList{invalid})
	}
	w := &Watch{resource: r, selected: selected, bookmarks: opts.AllowWatchBookmarks}
	if err := w.open(ctx, opts, from); err != nil {
		if err = r.rename(err); ctx.Err() != nil || apierrors.IsTooManyRequests(err) {
			return nil, err
		}
		w.failed = err
	}
	return w, nil
}

// History returns the history of all revisions of the watch, which ends when etcd has another one.
// It is the zero History for a watch that only reports an error.
func (w *Watch) History() fabric.History {
	if w.watcher == nil {
		return fabric.History{}
	}
	return w.watcher.History()
}

// Stop ends the watch. It may be called more than once.
func (w *Watch) Stop() {
	if w.watcher != nil {
		w.watcher.Stop()
	}
}

// open takes the initial reading, if the watch begins with one, and opens the feed after it.
func (w *Watch) open(ctx context.Context, opts metav1.ListOptions, from int64) error {
	wanted := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	refused := opts.SendInitialEvents != nil && !*opts.SendInitialEvents
	if !wanted && from > 0 {
		watcher, err := w.resource.feed().Watch(ctx, w.selected.View(), from)
		w.watcher, w.at = watcher, from
		return err
	}
	minimum := from
	if opts.ResourceVersion == "" {
		var err error
		if minimum, err = w.resource.store.Revision(ctx); err != nil {
			return err
		}
	}
	reading, watcher, err := w.resource.feed().ReadAndWatch(ctx, w.selected.View(), minimum)
	if err != nil {
		return err
	}
	w.watcher, w.at, w.end = watcher, reading.Revision, wanted
	if !refused {
		w.initial = reading.Items
	}
	return nil
}

// Run passes the watch's events to sink. It ends when ctx ends, when drained is closed, when sink
// fails (Run returns its error), or when the feed ends the watch, for example because sink is too
// slow. In the last case the client watches again from its last revision.
func (w *Watch) Run(ctx context.Context, drained <-chan struct{}, sink Sink) error {
	defer w.Stop()
	if w.failed != nil {
		return errors.Join(sink.Send(Failure(w.failed)), sink.Flush())
	}
	if err := w.begin(ctx, sink); err != nil {
		return err
	}
	deadline, _ := ctx.Deadline()
	timer := time.NewTimer(untilBookmark(time.Now(), deadline))
	defer timer.Stop()
	for {
		batch, ok, err := w.next(ctx, drained, timer, deadline, sink)
		if err != nil || !ok {
			return err
		}
		for _, change := range batch.Events {
			event, selected := w.event(change)
			if !selected {
				continue
			}
			w.pending = true
			if err := sink.Send(event); err != nil {
				return err
			}
		}
		w.at = max(w.at, batch.Revision)
	}
}

// begin sends the initial events.
func (w *Watch) begin(ctx context.Context, sink Sink) error {
	for _, item := range w.initial {
		if !w.selected.Matches(item.Object) {
			continue
		}
		if ctx.Err() != nil {
			return nil
		}
		w.pending = true
		if err := sink.Send(w.eventOf(watch.Added, item.Object, item.Encodings)); err != nil {
			return err
		}
	}
	w.initial = nil
	if !w.end || !w.bookmarks {
		return nil
	}
	w.pending = true
	return sink.Send(w.bookmark(true))
}

// next waits for the next batch. It flushes pending events before it would block, and sends
// bookmarks meanwhile. It returns false if the watch is over.
func (w *Watch) next(ctx context.Context, drained <-chan struct{}, timer *time.Timer, deadline time.Time, sink Sink) (feed.Batch, bool, error) {
	for {
		if w.pending && len(w.watcher.Events()) == 0 {
			w.pending = false
			if err := sink.Flush(); err != nil {
				return feed.Batch{}, false, err
			}
		}
		select {
		case <-ctx.Done():
			return feed.Batch{}, false, w.lateBookmark(ctx, timer, sink)
		case <-drained:
			return feed.Batch{}, false, nil
		case batch, ok := <-w.watcher.Events():
			return batch, ok, nil // It ends without an error, also if the kind was removed or replaced.
		case now := <-timer.C:
			timer.Reset(untilBookmark(now, deadline))
			if !w.bookmarks {
				continue
			}
			w.pending = true
			if err := sink.Send(w.bookmark(false)); err != nil {
				return feed.Batch{}, false, err
			}
		}
	}
}

// lateBookmark sends the last bookmark if it was due, but the process only ran again after the
// watch's deadline.
func (w *Watch) lateBookmark(ctx context.Context, timer *time.Timer, sink Sink) error {
	if !w.bookmarks || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil
	}
	select {
	case <-timer.C:
		return errors.Join(sink.Send(w.bookmark(false)), sink.Flush())
	default:
		return nil
	}
}

// untilBookmark returns how long to wait for the next bookmark of a watch that ends at deadline. A
// bookmark comes every minute, and shortly before the end, so that the client can continue from
// there.
func untilBookmark(now, deadline time.Time) time.Duration {
	if deadline.IsZero() {
		return bookmarkEvery
	}
	if last := deadline.Add(-bookmarkBefore).Sub(now); last > 0 {
		return min(last, bookmarkEvery)
	}
	return bookmarkEvery
}

// event returns what a change means for the selection; false if nothing.
func (w *Watch) event(change *feed.Event) (Event, bool) {
	previous := change.Previous
	if previous == nil && change.Deleted {
		previous = change.Object
	}
	before := w.inView(previous) && w.selected.Matches(previous)
	after := !change.Deleted && w.inView(change.Object) && w.selected.Matches(change.Object)
	switch {
	case before && after:
		return w.eventOf(watch.Modified, change.Object, change.Encodings), true
	case after:
		return w.eventOf(watch.Added, change.Object, change.Encodings), true
	case before:
		gone, encodings := change.Left()
		return w.eventOf(watch.Deleted, gone, encodings), true
	}
	return Event{}, false
}

func (w *Watch) eventOf(what watch.EventType, obj scheme.Object, encodings *encoded.Forms) Event {
	return Event{Type: what, object: obj, Encodings: encodings, present: w.resource.strategy.FromStored}
}

// inView reports whether obj is in the watched namespace and scope. The feed also delivers the
// change by which an object leaves them.
func (w *Watch) inView(obj scheme.Object) bool {
	if obj == nil {
		return false
	}
	view := w.selected.View()
	return (view.Namespace == "" || obj.GetNamespace() == view.Namespace) &&
		(view.Scope == "" || w.resource.stored.ScopeOf(obj) == view.Scope)
}

// bookmark returns a bookmark at the watch's revision; the one that ends the initial events is
// marked.
func (w *Watch) bookmark(end bool) Event {
	obj := w.resource.kind.New()
	obj.SetResourceVersion(strconv.FormatInt(w.at, 10))
	if end {
		obj.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	return Event{Type: watch.Bookmark, object: obj}
}

// Failure returns the ERROR event that ends a watch because of err.
func Failure(err error) Event {
	status := apierrors.NewInternalError(err).Status()
	if s := apierrors.APIStatus(nil); errors.As(err, &s) {
		status = s.Status()
	}
	if status.Code == 0 {
		status.Code = http.StatusInternalServerError
	}
	return Event{Type: watch.Error, object: &status}
}
