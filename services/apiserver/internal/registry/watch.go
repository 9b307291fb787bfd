package registry

import (
	"context"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/feed"
)

const (
	// bookmarkEvery is how often a watch with bookmarks is told how far it has come.
	bookmarkEvery = time.Minute
	// watchBuffer is how many events may wait for a reader before the feed's own buffer fills.
	watchBuffer = 16
)

// Watch follows the objects that opts selects in a namespace, or in all when it is empty. It
// begins as Kubernetes' does: with resourceVersion unset or "0", or with sendInitialEvents,
// each present object comes as ADDED first; with N come exactly the changes after N, or 410
// Expired. An object that enters or leaves the selection comes as ADDED or DELETED.
func (r *Resource) Watch(ctx context.Context, namespace string, opts metav1.ListOptions) (Watch, error) {
	if err := validateList(opts, true); err != nil {
		return nil, err
	}
	selected, err := r.selection(namespace, opts)
	if err != nil {
		return nil, err
	}
	from, err := parseVersion(opts.ResourceVersion)
	if err != nil {
		return nil, err
	}
	w := &watching{
		resource: r, selected: selected, bookmarks: opts.AllowWatchBookmarks,
		results: make(chan watch.Event, watchBuffer), ended: make(chan struct{}),
	}
	ctx, w.cancel = context.WithCancel(ctx)
	if err := w.open(ctx, opts, from); err != nil {
		w.cancel()
		return nil, r.rename(err)
	}
	go w.run(ctx)
	return w, nil
}

// watching is one watch. Its goroutine ends with Stop, the context or the feed's watcher.
type watching struct {
	resource  *Resource
	selected  selection
	bookmarks bool

	initial []scheme.Object // to be sent as ADDED
	end     bool            // the initial events end with a bookmark
	at      int64           // the revision up to which everything was sent

	watcher *feed.Watcher
	results chan watch.Event
	cancel  context.CancelFunc
	ended   chan struct{}
}

// ResultChan gives the events.
func (w *watching) ResultChan() <-chan watch.Event { return w.results }

// Stop ends the watch and waits until its goroutine has ended.
func (w *watching) Stop() {
	w.cancel()
	<-w.ended
}

// open takes the snapshot that the watch begins with, if it does, and opens the feed after it.
func (w *watching) open(ctx context.Context, opts metav1.ListOptions, from int64) error {
	f := w.resource.registry.config.Feeds.Of(w.resource.stored)
	wanted := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	refused := opts.SendInitialEvents != nil && !*opts.SendInitialEvents
	if !wanted && from > 0 {
		watcher, err := f.Watch(ctx, w.selected.view, from)
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
	objs, revision, watcher, err := f.SnapshotAndWatch(ctx, w.selected.view, minimum)
	if err != nil {
		return err
	}
	w.watcher, w.at, w.end = watcher, revision, wanted
	if !refused {
		w.initial = choose(w.selected, objs)
	}
	return nil
}

func (w *watching) run(ctx context.Context) {
	defer close(w.ended)
	defer close(w.results)
	defer w.watcher.Stop()
	defer w.cancel()
	for _, obj := range w.initial {
		if !w.send(ctx, watch.Event{Type: watch.Added, Object: w.resource.present(obj)}) {
			return
		}
	}
	w.initial = nil
	if w.end && w.bookmarks && !w.send(ctx, w.bookmark(true)) {
		return
	}
	ticker := time.NewTicker(bookmarkEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if w.bookmarks && !w.send(ctx, w.bookmark(false)) {
				return
			}
		case batch, ok := <-w.watcher.Events():
			if !ok {
				w.fail(ctx, w.watcher.Err())
				return
			}
			for _, change := range batch.Events {
				event, selected := w.event(change)
				if selected && !w.send(ctx, event) {
					return
				}
			}
			w.at = max(w.at, batch.Revision)
		}
	}
}

// event gives what a change is in the selection; false if it is nothing.
func (w *watching) event(change *feed.Event) (watch.Event, bool) {
	previous := change.Previous
	if previous == nil && change.Deleted {
		previous = change.Object
	}
	before := w.inView(previous) && w.selected.matches(previous)
	after := !change.Deleted && w.inView(change.Object) && w.selected.matches(change.Object)
	switch {
	case before && after:
		return watch.Event{Type: watch.Modified, Object: w.resource.present(change.Object)}, true
	case after:
		return watch.Event{Type: watch.Added, Object: w.resource.present(change.Object)}, true
	case before:
		gone, err := deepCopy(previous)
		if err != nil {
			return errorEvent(err), true
		}
		gone.SetResourceVersion(strconv.FormatInt(change.Revision, 10))
		return watch.Event{Type: watch.Deleted, Object: w.resource.present(gone)}, true
	}
	return watch.Event{}, false
}

// inView says whether obj is in the namespace and scope that are watched. The feed also gives
// the change by which an object leaves them.
func (w *watching) inView(obj scheme.Object) bool {
	if obj == nil {
		return false
	}
	view := w.selected.view
	return (view.Namespace == "" || obj.GetNamespace() == view.Namespace) &&
		(view.Scope == "" || w.resource.stored.ScopeOf(obj) == view.Scope)
}

// bookmark says how far the watch has come; the one that ends the initial events is marked.
func (w *watching) bookmark(end bool) watch.Event {
	obj := w.resource.kind.New()
	obj.SetResourceVersion(strconv.FormatInt(w.at, 10))
	if end {
		obj.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	return watch.Event{Type: watch.Bookmark, Object: obj}
}

func (w *watching) send(ctx context.Context, event watch.Event) bool {
	select {
	case w.results <- event:
		return true
	case <-ctx.Done():
		return false
	}
}

// fail tells why the feed ended the watch.
func (w *watching) fail(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	w.send(ctx, errorEvent(err))
}

func errorEvent(err error) watch.Event {
	status := apierrors.NewInternalError(err).Status()
	if s := apierrors.APIStatus(nil); asStatus(err, &s) {
		status = s.Status()
	}
	if status.Code == 0 {
		status.Code = http.StatusInternalServerError
	}
	return watch.Event{Type: watch.Error, Object: &status}
}
