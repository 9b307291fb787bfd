package simulation_test

import (
	"context"
	"errors"
	"io"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	api "github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// web is HTTP to the apiservers, any of which may take a call, as far as lists and watches need it.
type web struct{ world *world }

var (
	_ api.Interface = web{}

	errHTTP = errors.New("HTTP failed")
)

func (h web) Table() *scheme.Table { return table }

func (h web) Stream(context.Context, api.Call) (io.ReadCloser, error) { return nil, errHTTP }

func (h web) Document(context.Context, string) ([]byte, error) { return nil, errHTTP }

// called returns the apiserver that takes a call, and the view that the call is about.
func (h web) called(call api.Call) (*apiserver, fabric.View, *metav1.ListOptions, error) {
	w := h.world
	a := w.apiservers[w.rand.IntN(len(w.apiservers))]
	opts, ok := call.Options.(*metav1.ListOptions)
	if !ok || w.chance(w.drop) || w.now.Before(a.stopped) {
		return nil, fabric.View{}, nil, errHTTP
	}
	view := fabric.View{Namespace: call.Namespace}
	selector, err := fields.ParseSelector(opts.FieldSelector)
	if err != nil {
		return nil, fabric.View{}, nil, err
	}
	view.Name, _ = selector.RequiresExactMatch("metadata.name")
	if node, ok := selector.RequiresExactMatch("spec.nodeName"); ok {
		if view.Scope = node; node == "" {
			view.Scope = scheme.Unscoped
		}
	}
	if !a.readable() {
		return nil, fabric.View{}, nil, apierrors.NewTooManyRequests("storage is (re)initializing", 1)
	}
	return a, view, opts, nil
}

// Do handles a list.
func (h web) Do(_ context.Context, call api.Call, into runtime.Object) error {
	a, view, opts, err := h.called(call)
	if err != nil {
		return err
	}
	list, ok := into.(*corev1.PodList)
	if !ok {
		return errHTTP
	}
	var minimum int64
	if opts.ResourceVersion != "" {
		if minimum, err = strconv.ParseInt(opts.ResourceVersion, 10, 64); err != nil {
			return err
		}
	} else if minimum, err = a.conn.RevisionOf(h.world.ctx, podKind); err != nil {
		return err
	}
	if through := a.feed.Feed().Through(); through < minimum {
		return store.NewTooLargeResourceVersion(minimum, through, 1)
	}
	reading, err := a.feed.Feed().Read(h.world.ctx, view, minimum)
	if err != nil {
		return err
	}
	for _, item := range reading.Items {
		if pod, ok := item.Object.(*corev1.Pod); ok {
			list.Items = append(list.Items, *pod.DeepCopy())
		}
	}
	list.ResourceVersion, *call.History = strconv.FormatInt(reading.Revision, 10), reading.History
	return nil
}

// Watch watches from a revision.
func (h web) Watch(_ context.Context, call api.Call) (watch.Interface, error) {
	a, view, opts, err := h.called(call)
	if err != nil {
		return nil, err
	}
	from, err := strconv.ParseInt(opts.ResourceVersion, 10, 64)
	if err != nil {
		return nil, err
	}
	watcher, err := a.feed.Feed().Watch(h.world.ctx, view, from)
	if err != nil {
		return nil, err
	}
	*call.History = watcher.History()
	t := &tap{apiserver: a, watcher: watcher, view: view, events: make(chan watch.Event, tapRoom)}
	h.world.taps = append(h.world.taps, t)
	return t, nil
}

// tapRoom is how many events may be in flight.
const tapRoom = 4096

// tap is a watch over HTTP.
type tap struct {
	apiserver *apiserver
	watcher   *feed.Watcher
	view      fabric.View
	events    chan watch.Event
	ended     bool
}

func (t *tap) ResultChan() <-chan watch.Event { return t.events }

func (t *tap) Stop() {
	t.watcher.Stop()
	if !t.ended {
		t.ended = true
		close(t.events)
	}
}

// flow delivers what the apiserver has to send, in whole revisions; false if the watch is over.
func (t *tap) flow() bool {
	w := t.apiserver.world
	if t.apiserver.gone || w.rate(w.reconnect) {
		t.Stop()
	}
	for !t.ended && !w.now.Before(t.apiserver.stopped) && len(t.events) < tapRoom/2 {
		select {
		case batch, open := <-t.watcher.Events():
			if !open {
				t.Stop()
				break
			}
			for _, event := range batch.Events {
				t.bring(event)
			}
			if len(batch.Events) == 0 && w.chance(w.progress) {
				t.events <- watch.Event{Type: watch.Bookmark, Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.FormatInt(batch.Revision, 10)}}}
			}
		default:
			return true
		}
	}
	return !t.ended
}

func (t *tap) bring(event *feed.Event) {
	in := func(obj scheme.Object) bool {
		return obj != nil && (t.view.Namespace == "" || obj.GetNamespace() == t.view.Namespace) &&
			(t.view.Name == "" || obj.GetName() == t.view.Name) && (t.view.Scope == "" || podKind.ScopeOf(obj) == t.view.Scope)
	}
	before := event.Previous
	if before == nil && event.Deleted {
		before = event.Object
	}
	was, is := in(before), !event.Deleted && in(event.Object)
	out := watch.Event{Type: watch.Modified, Object: event.Object.DeepCopyObject()}
	switch {
	case !was && !is:
		return
	case !was:
		out.Type = watch.Added
	case !is:
		left, _ := event.Left()
		out = watch.Event{Type: watch.Deleted, Object: left.DeepCopyObject()}
	}
	t.events <- out
}

// flow lets all watches flow.
func (w *world) flow() {
	still := w.taps[:0]
	for _, t := range w.taps {
		if t.flow() {
			still = append(still, t)
		}
	}
	clear(w.taps[len(still):])
	w.taps = still
}
