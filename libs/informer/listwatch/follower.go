package listwatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
)

// Waits of a follower.
const (
	minBackoff = 500 * time.Millisecond
	maxBackoff = 30 * time.Second
	// minWatch is how long a watch must live to be taken for healthy.
	minWatch = time.Second
	// settle is how long an event waits for others of the same revision, which the server
	// sends one by one.
	settle = 2 * time.Millisecond
	// requireGrace is how long the watch has to reach a required revision by itself.
	requireGrace = 200 * time.Millisecond
	// The server ends a watch after this long, plus up to as much again, so that watches
	// spread over the servers (client-go, tools/cache.Reflector).
	watchTimeout = 5 * time.Minute
)

// errRequired ends a watch that does not reach the revision that somebody waits for.
var errRequired = errors.New("a newer revision is required")

// errBackwards says that the server is behind the revision from which it was to go on: etcd
// was restored from a backup.
var errBackwards = errors.New("the server's revisions went backwards")

type follower struct {
	client   client.Interface
	kind     *scheme.Kind
	view     informer.View
	sink     informer.Sink
	logger   *slog.Logger
	required chan struct{}

	// position is the revision at which the sink is; 0 before the first list.
	position int64

	mu      sync.Mutex
	minimum int64
}

// Run lists, watches, and lists again when the watch cannot go on.
func (f *follower) Run(ctx context.Context) error {
	if err := Check(f.kind, f.view); err != nil {
		return err
	}
	backoff, last := minBackoff, ""
	for ctx.Err() == nil {
		began := time.Now()
		err := f.once(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil, errors.Is(err, errRequired):
			// The server ended the watch in its time, or somebody cannot wait for it.
			if time.Since(began) >= minWatch || errors.Is(err, errRequired) {
				backoff, last = minBackoff, ""
				continue
			}
		case apierrors.IsResourceExpired(err), apierrors.IsGone(err), errors.Is(err, errBackwards):
			f.logger.Info("The watch cannot go on; listing again", "revision", f.position, "err", err)
			f.position = 0
		default:
			if text := err.Error(); text != last {
				last = text
				f.logger.Warn("Could not follow over HTTP; trying again until it works", "err", err)
			}
		}
		if time.Since(began) >= minWatch {
			backoff = minBackoff
		}
		wait := backoff/2 + rand.N(backoff)
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
			wait = max(wait, time.Duration(seconds)*time.Second)
		}
		backoff = min(2*backoff, maxBackoff)
		sleep(ctx, wait)
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// Require asks for content at or above a revision.
func (f *follower) Require(revision int64) {
	f.mu.Lock()
	f.minimum = max(f.minimum, revision)
	f.mu.Unlock()
	select {
	case f.required <- struct{}{}:
	default:
	}
}

func (f *follower) lacking() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.minimum > f.position {
		return f.minimum
	}
	return 0
}

// once lists if need be, and watches until the watch ends.
func (f *follower) once(ctx context.Context) error {
	if minimum := f.lacking(); f.position == 0 || minimum > 0 {
		if f.position == 0 {
			minimum = 0 // The newest there is: a first reading must not go into the past.
		}
		objects, revision, err := list(ctx, f.client, f.kind, f.view, minimum)
		if err != nil {
			return err
		}
		f.sink.Replace(objects, revision)
		f.position = revision
	}
	opts, err := options(f.kind, f.view)
	if err != nil {
		return err
	}
	seconds := int64((watchTimeout + rand.N(watchTimeout)).Seconds())
	opts.Watch, opts.AllowWatchBookmarks, opts.TimeoutSeconds = true, true, &seconds
	opts.ResourceVersion = strconv.FormatInt(f.position, 10)
	w, err := f.client.Watch(ctx, client.Call{Verb: "watch", Kind: f.kind, Namespace: f.view.Namespace, Options: &opts})
	if err != nil {
		return fmt.Errorf("watching %s: %w", f.kind.GroupResource(), err)
	}
	defer w.Stop()
	return f.follow(ctx, w.ResultChan())
}

// follow hands a watch's events to the sink, those of one revision together. It returns nil
// when the server has ended the watch.
func (f *follower) follow(ctx context.Context, events <-chan watch.Event) error {
	var held []informer.Change
	release := func() {
		if len(held) == 0 {
			return
		}
		revision := held[0].Revision
		f.sink.Apply(held, revision)
		f.position, held = max(f.position, revision), nil
	}
	// What was seen is true whatever comes after it.
	defer release()
	settled, overdue := time.NewTimer(0), time.NewTimer(0)
	settled.Stop()
	overdue.Stop()
	defer settled.Stop()
	defer overdue.Stop()
	waiting := false // overdue runs
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-settled.C:
			release()
		case <-f.required:
			// Who asks again and again must not put it off each time.
			if f.lacking() > 0 && !waiting {
				waiting = true
				overdue.Reset(requireGrace)
			}
		case <-overdue.C:
			waiting = false
			if f.lacking() > 0 {
				return errRequired
			}
		case event, open := <-events:
			if !open {
				return nil
			}
			change, revision, err := f.read(event)
			if err != nil {
				return err
			}
			if len(held) > 0 && held[0].Revision != revision {
				release()
			}
			switch {
			case change != nil:
				held = append(held, *change)
				settled.Reset(settle)
			case revision > f.position:
				f.sink.Apply(nil, revision)
				f.position = revision
			}
		}
	}
}

// read reads one event: a change, or for a bookmark only its revision.
func (f *follower) read(event watch.Event) (*informer.Change, int64, error) {
	if event.Type == watch.Error {
		return nil, 0, fmt.Errorf("watching %s: %w", f.kind.GroupResource(), apierrors.FromObject(event.Object))
	}
	obj, err := object(f.kind, event.Object)
	if err != nil {
		return nil, 0, fmt.Errorf("reading an event of %s: %w", f.kind.GroupResource(), err)
	}
	revision, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		return nil, 0, fmt.Errorf("reading an event of %s %s/%s: its resourceVersion %q is no revision",
			f.kind.GroupResource(), obj.GetNamespace(), obj.GetName(), obj.GetResourceVersion())
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
		return nil, 0, fmt.Errorf("reading an event of %s: %q is no type of event", f.kind.GroupResource(), event.Type)
	}
}
