package listwatch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
)

// open opens a watch from a version. It returns the watch's history, if the server names it. With
// initial, the watch first sends the existing objects.
func (f *follower) open(ctx context.Context, from version, initial bool) (w watch.Interface, of fabric.History, err error) {
	opts, err := options(f.kind, f.view)
	if err != nil {
		return nil, of, err
	}
	seconds := int64((f.cfg.MinWatchTimeout + rand.N(f.cfg.MinWatchTimeout)).Seconds())
	opts.Watch, opts.AllowWatchBookmarks, opts.TimeoutSeconds = true, true, &seconds
	opts.ResourceVersion = string(from)
	if initial {
		opts.SendInitialEvents = new(true)
		opts.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	}
	w, err = f.cfg.Client.Watch(ctx, client.Call{Verb: "watch", Kind: f.kind, Namespace: f.view.Namespace, Options: &opts, History: &of})
	if err != nil {
		return nil, of, f.fault(err)
	}
	f.count.watched()
	return w, of, nil
}

// watchList reads the whole view by a watch that first sends the existing objects. It returns the
// watch, which continues. At the end of ctx it returns nil.
func (f *follower) watchList(ctx context.Context) (watch.Interface, error) {
	for ctx.Err() == nil {
		began := time.Now()
		from := f.from()
		w, of, err := f.open(ctx, from, true)
		if err == nil && f.refuses(of) {
			w.Stop()
			return nil, f.fault(errOlder)
		}
		if err == nil {
			var view whole
			var done bool
			if view, done, err = f.collect(ctx, w.ResultChan()); done {
				err = from.reached(view.revision)
			}
			if done && err == nil {
				f.count.read("watch-list")
				view.history = of
				f.replace(view)
				return w, nil
			}
			w.Stop()
			if err == nil && time.Since(began) < minWatch && len(view.objects) == 0 {
				err = errVeryShort
			}
		}
		switch {
		case err == nil: // The server closed it early; try again.
		case isRetriable(err):
			f.logger.Debug("could not read the view by a watch; retrying", "err", err)
			f.wait(ctx, err)
		case isUnavailable(err) && !f.unavailable:
			f.unavailable = true
		default:
			return nil, err
		}
	}
	return nil, nil
}

// collect collects the initial events, up to the bookmark that ends them; done reports whether the
// bookmark came.
func (f *follower) collect(ctx context.Context, events <-chan watch.Event) (view whole, done bool, err error) {
	type key struct{ namespace, name string }
	found := map[key]informer.Object{}
	silent := time.NewTimer(silence)
	defer silent.Stop()
	for {
		select {
		case <-ctx.Done():
			return whole{}, false, nil
		case <-silent.C:
			return whole{}, false, f.fault(fmt.Errorf("no event for %v, and no bookmark to end the initial events", silence))
		case event, open := <-events:
			if !open {
				return whole{}, false, nil
			}
			silent.Reset(silence)
			if event.Type == watch.Error {
				return whole{}, false, f.fault(apierrors.FromObject(event.Object))
			}
			obj, err := object(f.kind, event.Object)
			if err != nil {
				// A whole view without this object would mean that it is gone.
				f.discard(err)
				return whole{}, false, f.fault(err)
			}
			switch event.Type {
			case watch.Added, watch.Modified:
				found[key{obj.GetNamespace(), obj.GetName()}] = obj
			case watch.Deleted:
				delete(found, key{obj.GetNamespace(), obj.GetName()})
			case watch.Bookmark:
				if obj.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true" {
					continue
				}
				view.revision, err = revisionOf(f.kind, obj)
				if err != nil {
					return whole{}, false, f.fault(err)
				}
				view.objects = make([]informer.Object, 0, len(found))
				for _, obj := range found {
					view.objects = append(view.objects, obj)
				}
				return view, true, nil
			default:
				return whole{}, false, f.fault(fmt.Errorf("unknown event type %q", event.Type))
			}
		}
	}
}

// follow passes a watch's events to the sink, all events of one revision together. It returns nil
// when the server has ended the watch or ctx has ended, and how many events it understood.
func (f *follower) follow(ctx context.Context, events <-chan watch.Event) (understood int, err error) {
	// The events seen so far are true whatever comes next.
	defer f.release()
	settled, overdue, repair := time.NewTimer(0), time.NewTimer(0), time.NewTimer(0)
	for _, timer := range []*time.Timer{settled, overdue, repair} {
		timer.Stop()
		defer timer.Stop()
	}
	waiting, damaged := false, false // whether overdue and repair run
	defer func() {
		if damaged && ctx.Err() == nil {
			err = errDamaged // Whatever else ended the watch, the content lacks something.
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return understood, nil
		case <-settled.C:
			f.release()
		case <-f.required:
			// Repeated calls of Require must not keep postponing the deadline.
			if f.lacking() > 0 && !waiting {
				waiting = true
				overdue.Reset(requireGrace)
			}
		case <-overdue.C:
			waiting = false
			if f.lacking() > 0 {
				return understood, errRequired
			}
		case <-repair.C:
			return understood, errDamaged
		case event, open := <-events:
			if !open {
				return understood, nil
			}
			if event.Type == watch.Error {
				return understood, f.fault(apierrors.FromObject(event.Object))
			}
			err := f.apply(event)
			if errors.Is(err, errBackwards) {
				return understood, err
			}
			if err != nil {
				f.discard(err)
				if !damaged {
					damaged = true
					repair.Reset(repairGrace)
				}
				continue
			}
			understood++
			if len(f.held) > 0 {
				settled.Reset(settle)
			}
		}
	}
}

// apply applies an event that is not an error. It holds a change back until the change is known to
// be the last of its revision.
func (f *follower) apply(event watch.Event) error {
	change, revision, err := f.understand(event)
	if err != nil {
		return err
	}
	// A bookmark means that everything up to its revision was sent; that may be the revision of the
	// held changes.
	if len(f.held) > 0 && (change == nil || f.held[0].Revision != revision) {
		f.release()
	}
	switch {
	case change != nil:
		f.held = append(f.held, *change)
	case revision > f.position:
		f.sink.Apply(nil, revision)
		f.position = revision
	}
	return nil
}

// release passes on the changes that are held back.
func (f *follower) release() {
	if len(f.held) == 0 {
		return
	}
	revision := f.held[0].Revision
	f.sink.Apply(f.held, revision)
	f.position, f.held = max(f.position, revision), nil
}

// discard counts and logs an event that could not be understood.
func (f *follower) discard(err error) {
	f.count.discarded()
	f.logger.Error("discarded an event of a watch; the whole view will be read again", "revision", f.position, "err", err)
}

// understand parses one event: a change, or for a bookmark only its revision.
func (f *follower) understand(event watch.Event) (*informer.Change, int64, error) {
	obj, err := object(f.kind, event.Object)
	if err != nil {
		return nil, 0, err
	}
	revision, err := revisionOf(f.kind, obj)
	if err != nil {
		return nil, 0, err
	}
	if revision < f.position {
		return nil, 0, fmt.Errorf("reading an event of %s %s/%s: got revision %d at revision %d: %w",
			f.kind.GroupResource(), obj.GetNamespace(), obj.GetName(), revision, f.position, errBackwards)
	}
	change := &informer.Change{
		Revision: revision, Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: string(obj.GetUID()), Object: obj,
	}
	switch event.Type {
	case watch.Bookmark:
		return nil, revision, nil
	case watch.Added, watch.Modified:
		return change, revision, nil
	case watch.Deleted:
		change.Deleted = true
		return change, revision, nil
	default:
		return nil, 0, fmt.Errorf("unknown event type %q", event.Type)
	}
}
