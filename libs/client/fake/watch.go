package fake

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
)

// watcher is one open watch: an unbounded queue and a goroutine that delivers it.
type watcher struct {
	kind *scheme.Kind
	keep selection

	mu     sync.Mutex
	queue  []watch.Event
	ended  bool // nothing more is queued
	wake   chan struct{}
	out    chan watch.Event
	stop   chan struct{}
	once   sync.Once
	cancel func()
}

func (c *Client) watch(ctx context.Context, call client.Call) (watch.Interface, error) {
	opts, err := listOptions(call)
	if err != nil {
		return nil, err
	}
	keep, err := newSelection(call.Kind, call.Namespace, opts)
	if err != nil {
		return nil, err
	}
	from, err := parseRevision(opts.ResourceVersion)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	w := &watcher{
		kind: call.Kind, keep: keep,
		wake: make(chan struct{}, 1), out: make(chan watch.Event), stop: make(chan struct{}),
	}
	initial := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	switch {
	case from > c.revision:
		return nil, tooLarge(from, c.revision)
	case initial, from == 0:
		c.sendAll(w, initial && opts.AllowWatchBookmarks)
	case from < c.compacted:
		expired := apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", from, c.compacted))
		w.queue = append(w.queue, watch.Event{Type: watch.Error, Object: &expired.ErrStatus})
		w.ended = true
	default:
		for _, e := range c.history {
			if e.revision > from {
				w.offer(e)
			}
		}
	}
	if !w.ended {
		c.watchers[w] = struct{}{}
	}
	w.cancel = func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.watchers, w)
	}
	var timeout <-chan time.Time
	if opts.TimeoutSeconds != nil {
		timeout = time.After(time.Duration(*opts.TimeoutSeconds) * time.Second)
	}
	go w.run(ctx, timeout)
	return w, nil
}

// sendAll queues the present objects and, if bookmark is set, the bookmark that marks their end.
func (c *Client) sendAll(w *watcher, bookmark bool) {
	objects := c.objects[w.kind.GroupResource()]
	for _, key := range sortedKeys(objects) {
		if obj := objects[key]; w.keep.selects(obj) {
			w.queue = append(w.queue, watch.Event{Type: watch.Added, Object: copyOf(obj)})
		}
	}
	if bookmark {
		obj := w.kind.New()
		obj.SetResourceVersion(fmt.Sprint(c.revision))
		obj.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		w.queue = append(w.queue, watch.Event{Type: watch.Bookmark, Object: obj})
	}
}

// offer queues what e means to this watch: an object that starts or stops matching the selectors is
// added or deleted. The client's lock is held.
func (w *watcher) offer(e event) {
	if e.kind.GroupResource() != w.kind.GroupResource() {
		return
	}
	is := !e.deleted && w.keep.selects(e.object)
	was := e.previous != nil && w.keep.selects(e.previous)
	var out watch.Event
	switch {
	case is && was:
		out = watch.Event{Type: watch.Modified, Object: copyOf(e.object)}
	case is:
		out = watch.Event{Type: watch.Added, Object: copyOf(e.object)}
	case was:
		last := copyOf(e.previous)
		last.SetResourceVersion(fmt.Sprint(e.revision))
		out = watch.Event{Type: watch.Deleted, Object: last}
	default:
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	w.queue = append(w.queue, out)
	w.signal()
}

// end closes the watch after the queued events.
func (w *watcher) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.signal()
}

func (w *watcher) signal() {
	select {
	case w.wake <- struct{}{}:
	default: // It is awake, or will be.
	}
}

func (w *watcher) run(ctx context.Context, timeout <-chan time.Time) {
	defer close(w.out)
	defer w.cancel()
	for {
		w.mu.Lock()
		queue, ended := slices.Clone(w.queue), w.ended
		w.queue = nil
		w.mu.Unlock()
		for _, e := range queue {
			select {
			case w.out <- e:
			case <-w.stop:
				return
			case <-ctx.Done():
				return
			}
		}
		if ended {
			return
		}
		select {
		case <-w.wake:
		case <-timeout:
			return
		case <-w.stop:
			return
		case <-ctx.Done():
			return
		}
	}
}

// Stop ends the watch.
func (w *watcher) Stop() { w.once.Do(func() { close(w.stop) }) }

// ResultChan returns the events; it is closed when the watch has ended.
func (w *watcher) ResultChan() <-chan watch.Event { return w.out }
