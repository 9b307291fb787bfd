package listwatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/watcher"
	"github.com/garboard/garboard/libs/scheme"
)

// Waits of a follower. Those that reflectors have too are client-go's (tools/cache.Reflector).
const (
	minBackoff = 800 * time.Millisecond
	maxBackoff = 30 * time.Second
	// backoffReset is the time without a wait after which the next wait is short again.
	backoffReset = 2 * time.Minute
	// minWatch is how long a watch without an event must live to count as healthy.
	minWatch        = time.Second
	minWatchTimeout = 5 * time.Minute
	// settle is how long an event waits for others of the same revision, which the server sends one
	// by one.
	settle = 2 * time.Millisecond
	// requireGrace is how long the watch has to reach a required revision by itself.
	requireGrace = 200 * time.Millisecond
	// repairGrace is how long a watch continues after an event that could not be understood, before
	// the view is read again.
	repairGrace = time.Second
	// silence is how long a watch may send nothing while it sends the initial events.
	silence = 10 * time.Second
)

var (
	// errRequired ends a watch that does not reach the revision that a caller waits for.
	errRequired = errors.New("a newer revision is required")
	// errDamaged ends a watch with an event that could not be understood.
	errDamaged = errors.New("the watch sent an event that could not be understood")
	// errBackwards reports that the server is behind the revision from which to continue: etcd was
	// restored from a backup.
	errBackwards = errors.New("the server's revisions went backwards")
	// errOlder reports that the server is still in a history that is over.
	errOlder = errors.New("the server is still in an older history of etcd")
	// errRenewed reports that the server is in a history that the sink does not know.
	errRenewed = errors.New("a new history of etcd has begun")
	// errHistories reports that the parts of a list belong to different histories.
	errHistories = errors.New("the history of etcd changed while listing")
	// errVeryShort reports that a watch was closed at once, without an event.
	errVeryShort = errors.New("the watch was closed in less than a second, without an event")
)

type follower struct {
	informer.FollowerDefaults
	cfg      *Config
	kind     *scheme.Kind
	view     informer.View
	sink     informer.Sink
	logger   *slog.Logger
	count    counts
	required chan struct{}
	pauses   pauses

	// position is the revision of the sink; 0 before the first whole view. history is the history
	// of position; the zero ID if no server has named one.
	position int64
	history  fabric.History
	// olderSince is since when servers are in an older history; zero if the last server was not.
	olderSince time.Time
	// held are changes of one revision that the sink has not received yet.
	held []informer.Change
	// resumes means that the sink already holds the view.
	resumes bool
	// unavailable means that the server does not know the position, or that the content lacks
	// something newer. Then only the current state will do.
	unavailable bool
	// paged means that the server returned the first list in pages, so later lists ask for pages.
	paged bool
	// said is the text of the last logged failure, which is not logged again.
	said string

	mu      sync.Mutex
	minimum int64
}

// Via reports that HTTP carries the changes.
func (*follower) Via() string { return watcher.ViaHTTP }

// Run reads the view, watches, and reads the view again when the watch cannot continue.
func (f *follower) Run(ctx context.Context) error {
	if err := Check(f.kind, f.view); err != nil {
		return err
	}
	for {
		err := f.listAndWatch(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errRequired):
			continue // A caller waits.
		case err != nil:
			f.failed(ctx, err)
		}
		f.wait(ctx, err)
	}
}

// failed reports a failure to read the view or to open a watch.
func (f *follower) failed(ctx context.Context, err error) {
	f.count.failed()
	f.sink.WatchError(ctx, err)
	switch {
	case f.cfg.WatchErrorHandler != nil:
		f.cfg.WatchErrorHandler(ctx, f.kind, err)
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err), errors.Is(err, io.EOF):
		f.logger.Debug("the watch cannot continue; reading the whole view again", "revision", f.position, "err", err)
	default:
		if text := err.Error(); text != f.said {
			f.said = text
			f.logger.Warn("could not follow over HTTP; retrying", "err", err)
		}
	}
}

// wait waits before the next attempt, at least as long as the server asks for.
func (f *follower) wait(ctx context.Context, err error) {
	wait := f.pauses.next(time.Now())
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		wait = max(wait, time.Duration(seconds)*time.Second)
	}
	backoff.Sleep(ctx, wait)
}

// pauses are the waits of a follower: each is twice the last, plus up to as much again as jitter.
type pauses struct {
	delays wait.Backoff
	last   time.Time
}

func (p *pauses) next(at time.Time) time.Duration {
	if at.Sub(p.last) > backoffReset {
		p.delays = backoff.Doubling(minBackoff, maxBackoff, 1)
	}
	p.last = at
	return p.delays.Step()
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

// lacking returns the revision that a caller waits for; 0 if there is none.
func (f *follower) lacking() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.minimum > f.position {
		return f.minimum
	}
	return 0
}

// listAndWatch reads the whole view, and watches until the watch cannot continue. It returns an
// error only if it could not read the view or open a watch; a watch that fails later is only
// logged.
func (f *follower) listAndWatch(ctx context.Context) error {
	var w watch.Interface
	if resumes := f.resumes; !resumes || f.lacking() > 0 {
		var err error
		if w, err = f.read(ctx); err != nil {
			return err
		}
	}
	f.resumes, f.said = false, ""
	return f.watch(ctx, w)
}

// read reads the whole view. If it read the view by a watch, it returns that watch, to continue
// with. At the end of ctx it returns nil.
func (f *follower) read(ctx context.Context) (watch.Interface, error) {
	if !f.cfg.NoWatchList {
		w, err := f.watchList(ctx)
		if err == nil || errors.Is(err, errOlder) {
			return w, err
		}
		f.logger.Debug("could not read the view by a watch; listing it", "err", err)
	}
	from := f.from()
	if from == now && f.position == 0 && !f.unavailable && f.olderSince.IsZero() && f.lacking() == 0 {
		from = whenever
	}
	limit := cmp.Or(f.cfg.PageSize, defaultPageSize)
	if f.cfg.PageSize == 0 && from.isRevision() && !f.paged {
		limit = 0 // Without a limit the server may answer from its cache.
	}
	view, err := list(ctx, f.cfg.Client, f.kind, f.view, from, limit)
	if isUnavailable(err) {
		f.unavailable = true
		view, err = list(ctx, f.cfg.Client, f.kind, f.view, now, cmp.Or(f.cfg.PageSize, defaultPageSize))
	}
	if err == nil && f.refuses(view.history) {
		err = f.fault(errOlder)
	}
	if err != nil {
		return nil, err
	}
	if from == whenever && view.paged {
		f.paged = true
	}
	f.count.read("list")
	f.replace(view)
	return nil, nil
}

// from is the oldest acceptable version of the next whole view: that of the sink, or the one that a
// caller waits for.
func (f *follower) from() version {
	if f.unavailable || !f.olderSince.IsZero() {
		return now
	}
	return atLeast(max(f.position, f.lacking()))
}

func (f *follower) replace(view whole) {
	f.sink.Replace(fabric.Position{History: view.history, Revision: view.revision}, view.objects)
	if f.unavailable || f.isOlder(view.history) || f.history.Before(view.history) && f.history != (fabric.History{}) {
		// The view is newer than every required revision, unless etcd is in another life; the watch
		// brings everything later.
		f.mu.Lock()
		f.minimum = 0
		f.mu.Unlock()
	}
	f.position, f.history, f.unavailable = view.revision, view.history, false
	f.olderSince = time.Time{}
}

// isOlder reports whether an answer belongs to an older history than the sink's content.
func (f *follower) isOlder(of fabric.History) bool {
	return of != fabric.History{} && of.Before(f.history)
}

// refuses reports whether a whole view is refused because it belongs to an older history than the
// sink's content. Servers may report nothing newer for long, though asked for content as new as
// etcd. Then the sink's content belongs to an etcd that is gone and whose clock was ahead, and the
// view is accepted.
func (f *follower) refuses(of fabric.History) bool {
	if !f.isOlder(of) {
		return false
	}
	if f.isOutlived() { // The view was then requested as new as etcd.
		f.logger.Warn("all servers have long been in an older history; dropping the known content",
			"history", of.String(), "known", f.history.String())
		return false
	}
	f.heardOlder()
	return true
}

// heardOlder records that a server is in an older history. From now on only views as new as etcd
// are read.
func (f *follower) heardOlder() {
	if f.olderSince.IsZero() {
		f.olderSince = time.Now()
	}
}

func (f *follower) isOutlived() bool {
	return !f.olderSince.IsZero() && time.Since(f.olderSince) >= fabric.HistoryGrace
}

// continues reports whether a watch from the position, in the history that the server names,
// continues the sink's content. It returns nil, errOlder or errRenewed.
func (f *follower) continues(of fabric.History) error {
	switch {
	case of == fabric.History{}, of == f.history:
		return nil
	case f.isOlder(of):
		return errOlder
	}
	return errRenewed
}

// isUnavailable reports whether the server no longer knows a version, or does not know it yet.
func isUnavailable(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || isTooLarge(err)
}

func isTooLarge(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// isRetriable reports whether it is enough to open a watch again: the server is away or busy.
func isRetriable(err error) bool {
	return utilnet.IsConnectionRefused(err) || apierrors.IsTooManyRequests(err)
}

// watch watches from the position until the watch cannot continue. w is a watch that is already
// open, or nil.
func (f *follower) watch(ctx context.Context, w watch.Interface) error {
	var internalSince time.Time
	for {
		began := time.Now()
		switch {
		case ctx.Err() != nil:
			if w != nil {
				w.Stop()
			}
			return nil
		case w == nil:
			var err error
			w, err = f.reopen(ctx)
			switch {
			case errors.Is(err, errRenewed):
				f.logger.Warn("the watch cannot continue; reading the whole view again", "revision", f.position, "err", err)
				return nil
			case errors.Is(err, errOlder):
				f.failed(ctx, err)
				if f.isOutlived() {
					return nil
				}
				f.wait(ctx, err)
				continue
			case isRetriable(err):
				f.logger.Debug("could not open a watch; retrying", "err", err)
				f.wait(ctx, err)
				continue
			case err != nil:
				return err
			}
		}
		events, err := f.follow(ctx, w.ResultChan())
		w.Stop()
		w = nil
		if err == nil && events == 0 && time.Since(began) < minWatch {
			err = errVeryShort
		}
		if !apierrors.IsInternalError(err) {
			internalSince = time.Time{}
		} else if internalSince.IsZero() {
			internalSince = time.Now()
		}
		switch {
		case err == nil || ctx.Err() != nil:
		case errors.Is(err, errRequired):
			return err
		case errors.Is(err, errDamaged), errors.Is(err, errBackwards):
			f.unavailable = true
			f.logger.Warn("the watch cannot continue; reading the whole view again", "revision", f.position, "err", err)
			return nil
		case apierrors.IsTooManyRequests(err):
			f.wait(ctx, err)
		case apierrors.IsInternalError(err) && time.Since(internalSince) < f.cfg.MaxInternalErrorRetryDuration:
			f.logger.Debug("the watch ended with an internal error; opening it again", "err", err)
		case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
			f.logger.Debug("the watch ended; reading the whole view again", "revision", f.position, "err", err)
			return nil
		default:
			f.logger.Info("the watch ended with an error; reading the whole view again", "revision", f.position, "err", err)
			return nil
		}
	}
}

// reopen opens a watch from the position, if the server is in the same history. Otherwise the error
// is errOlder, or errRenewed, after which the view must be read again.
func (f *follower) reopen(ctx context.Context) (watch.Interface, error) {
	w, of, err := f.open(ctx, atLeast(f.position), false)
	if err != nil {
		return nil, err
	}
	if err := f.continues(of); err != nil {
		w.Stop()
		if errors.Is(err, errOlder) {
			f.heardOlder()
		}
		f.unavailable = f.unavailable || errors.Is(err, errRenewed)
		return nil, f.fault(err)
	}
	f.olderSince = time.Time{}
	return w, nil
}

func (f *follower) fault(err error) error {
	return fmt.Errorf("watching %s: %w", f.kind.GroupResource(), err)
}
