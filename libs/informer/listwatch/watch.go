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
	"github.com/garboard/garboard/libs/history"
	"github.com/garboard/garboard/libs/informer"
)

// open opens a watch from a version, of a history if the server says so; with initial one that
// sends first what there is.
func (f *follower) open(ctx context.Context, from version, initial bool) (w watch.Interface, of history.ID, err error) {
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

// watchList reads the whole view by a watch that sends first what there is, and gives the
// watch, which goes on. At the end of ctx it gives nothing.
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
		case err == nil: // It was closed before its time; again.
		case isRetriable(err):
			f.logger.Debug("Could not read the view by a watch; trying again", "err", err)
			f.wait(ctx, err)
		case isUnavailable(err) && !f.unavailable:
			f.unavailable = true
		default:
			return nil, err
		}
	}
	return nil, nil
}

// collect takes what there is, up to the bookmark that ends it; done says that it came.
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
			return whole{}, false, f.fault(fmt.Errorf("nothing came for %v, and no end of what there is", silence))
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
				// A whole view without it would say that it is gone.
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
				return whole{}, false, f.fault(fmt.Errorf("%q is no type of event", event.Type))
			}
		}
	}
}

// follow hands a watch's events to the sink, those of one revision together. It returns nil
// when the server has ended the watch, or ctx has ended, and how many events it understood.
func (f *follower) follow(ctx context.Context, events <-chan watch.Event) (understood int, err error) {
	// What was seen is true whatever comes after it.
	defer f.release()
	settled, overdue, repair := time.NewTimer(0), time.NewTimer(0), time.NewTimer(0)
	for _, timer := range []*time.Timer{settled, overdue, repair} {
		timer.Stop()
		defer timer.Stop()
	}
	waiting, damaged := false, false // overdue runs, repair runs
	defer func() {
		if damaged && ctx.Err() == nil {
			err = errDamaged // Whatever else ended the watch, something is lacking.
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return understood, nil
		case <-settled.C:
			f.release()
		case <-f.required:
			// Who asks again and again must not put it off each time.
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
			err := f.take(event)
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

// take takes in an event that is no error. A change is held until it is known to be the last of
// its revision.
func (f *follower) take(event watch.Event) error {
	change, revision, err := f.understand(event)
	if err != nil {
		return err
	}
	// A bookmark says that all was sent up to its revision, which may be that of what is held.
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

// release hands over the changes that are held.
func (f *follower) release() {
	if len(f.held) == 0 {
		return
	}
	revision := f.held[0].Revision
	f.sink.Apply(f.held, revision)
	f.position, f.held = max(f.position, revision), nil
}

// discard notes an event that could not be understood.
func (f *follower) discard(err error) {
	f.count.discarded()
	f.logger.Error("Discarded an event of a watch; the whole view will be read again", "revision", f.position, "err", err)
}

// understand reads one event: a change, or for a bookmark only its revision.
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
		return nil, 0, fmt.Errorf("reading an event of %s %s/%s: revision %d came at revision %d: %w",
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
		return nil, 0, fmt.Errorf("%q is no type of event", event.Type)
	}
}
