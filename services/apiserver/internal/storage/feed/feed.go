package feed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/encoded"
	"github.com/garboard/garboard/services/apiserver/internal/storage/intern"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

const (
	// progressPeriod is how often the feed asks etcd for its progress. The publisher's promise of
	// progress every 5 s and the store's patience of 10 s depend on it.
	progressPeriod = 2 * time.Second
	// urgentPeriod replaces progressPeriod while a reader waits for a revision.
	urgentPeriod = 50 * time.Millisecond
	// DefaultPatience is how long a reader waits for a revision (Kubernetes: 3 s).
	DefaultPatience = 3 * time.Second
	// historyPeriod is roughly how often Feeds checks whether etcd has another history.
	historyPeriod = 5 * time.Second
	retryFirst    = 100 * time.Millisecond
	retryLargest  = 5 * time.Second
	retrySeconds  = 1
)

var (
	errRestarted = errors.New("the watch cache was read anew")
	errStopped   = errors.New("the watch was stopped")
	errDoubt     = errors.New("etcd is behind what it reported before")
)

// Feed is the watch cache of one stored kind. It is safe for concurrent use.
type Feed struct {
	kind    *scheme.Kind
	cfg     Config
	storage Storage
	logger  *slog.Logger
	metrics *metrics
	parts   intern.Parts // shared by the objects that are read
	epoch   *epoch
	cache   *encoded.Cache
	nudge   chan struct{}

	mu       sync.Mutex
	gone     bool // the kind was removed
	state    *state
	ready    int64 // the revision from which state may be read; 0 until it is known
	waiting  int
	newest   fabric.History // the newest history of any state so far
	starts   int64          // how often the state was replaced
	moved    chan struct{}  // closed and replaced whenever through advances
	watchers map[fabric.View]map[*Watcher]struct{}
	changes  int64     // how often the objects changed
	ordered  *ordering // nil if nothing was read since the last change
}

func newFeed(cfg Config, storage Storage, kind *scheme.Kind, m *metrics, epoch *epoch, cache *encoded.Cache) *Feed {
	return &Feed{
		kind: kind, cfg: cfg, storage: storage, metrics: m, epoch: epoch, cache: cache,
		logger: cfg.Logger.With("resource", kind.GroupResource().String()),
		nudge:  make(chan struct{}, 1), moved: make(chan struct{}),
		watchers: map[fabric.View]map[*Watcher]struct{}{},
	}
}

// Kind returns the stored kind of the feed.
func (f *Feed) Kind() *scheme.Kind { return f.kind }

// run reads etcd and follows it until ctx ends, and starts over whenever there is a doubt.
func (f *Feed) run(ctx context.Context) error {
	defer func() {
		if errors.Is(context.Cause(ctx), scheme.ErrRemoved) {
			f.remove()
		} else {
			f.reset(nil, 0)
		}
	}()
	delays := retries()
	for {
		began := time.Now()
		err := f.live(ctx)
		if ctx.Err() != nil || errors.Is(err, scheme.ErrRemoved) {
			return nil
		}
		f.logger.WarnContext(ctx, "reading the watch cache anew", "err", err)
		if time.Since(began) > retryLargest {
			delays = retries()
		}
		if !backoff.Sleep(ctx, delays.Step()) {
			return nil
		}
	}
}

// live reads the kind at the start of a window and follows it from there. It returns when the feed
// can no longer vouch for what it knows; W must then rise: F4.
func (f *Feed) live(ctx context.Context) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	if f.removed() {
		return scheme.ErrRemoved
	}
	epoch := f.epoch.end()
	if err := f.open(ctx, epoch); err != nil {
		return err
	}
	delays := retries()
	for {
		began := time.Now()
		err := f.follow(ctx, epoch)
		if err == nil {
			err = errRestarted
		}
		if errors.Is(err, store.ErrReopened) || errors.Is(err, errDoubt) {
			// An etcd member that lags behind raises doubts too: avoid a tight loop.
			if !backoff.Sleep(ctx, backoff.Around(retryFirst)) {
				return ctx.Err()
			}
			if err = f.check(ctx, epoch); err == nil {
				continue
			}
		}
		// etcd also reports Compacted after a proper restore: H1.
		var compacted *store.CompactedError
		if ctx.Err() != nil || errors.As(err, &compacted) || errors.Is(err, errRestarted) {
			return err
		}
		// The watch broke, but what is known stays true: continue where it ended.
		f.logger.InfoContext(ctx, "following etcd again", "after", f.Through(), "err", err)
		if time.Since(began) > retryLargest {
			delays = retries()
		}
		for err != nil {
			if !backoff.Sleep(ctx, delays.Step()) {
				return ctx.Err()
			}
			if err = f.check(ctx, epoch); errors.Is(err, errRestarted) {
				return err
			}
		}
	}
}

// open reads the kind at the start of the wanted window, or at the oldest revision that etcd still
// has. The feed becomes readable when it has followed etcd to the present. F1.
func (f *Feed) open(ctx context.Context, epoch <-chan struct{}) error {
	history, err := f.risen(ctx)
	if err != nil {
		return err
	}
	now, err := f.storage.Revision(ctx)
	if err != nil {
		return err
	}
	start, err := f.storage.Oldest(ctx, now-f.cfg.History)
	if err != nil {
		return err
	}
	first := newState(f.kind, history, start, f.cache)
	first.epoch = epoch
	var faults error
	err = f.storage.Scan(ctx, f.kind, start, func(records []store.Record) {
		for _, record := range records {
			c, err := f.decode(record)
			if faults = cmp.Or(faults, err); faults != nil {
				return
			}
			first.begin(record.Revision, c)
		}
	})
	if err = cmp.Or(faults, err); err != nil {
		return err
	}
	f.metrics.starts.WithLabelValues(f.kind.Group, f.kind.Resource).Inc()
	f.metrics.capacity.WithLabelValues(f.kind.Group, f.kind.Resource).Set(float64(f.cfg.WindowEvents))
	f.reset(first, now)
	return nil
}

// follow watches etcd from the end of the state. It returns errRestarted when the epoch ends.
func (f *Feed) follow(ctx context.Context, epoch <-chan struct{}) error {
	ctx, cancel := context.WithCancelCause(ctx)
	progress := make(chan struct{}, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.requestProgress(ctx, progress, epoch)
		cancel(errRestarted)
	}()
	defer func() { cancel(nil); <-done }()
	err := f.storage.Follow(ctx, f.kind, f.Through(), progress, f.apply)
	if errors.Is(context.Cause(ctx), errRestarted) {
		return errRestarted
	}
	return err
}

// requestProgress asks etcd for its progress regularly, and often while a reader waits for it,
// until ctx or the epoch ends.
func (f *Feed) requestProgress(ctx context.Context, progress chan<- struct{}, epoch <-chan struct{}) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-epoch:
			return
		case <-f.nudge:
		case <-timer.C:
		}
		select {
		case progress <- struct{}{}:
		default:
		}
		timer.Reset(f.period())
	}
}

func (f *Feed) period() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.waiting > 0 || !f.readable() {
		return urgentPeriod
	}
	return progressPeriod
}

// apply applies an update from etcd, revision by revision, each under one lock: F2.
func (f *Feed) apply(update store.Update) (err error) {
	// A panic here leaves a state that may be half a revision ahead.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: panic: %v\n%s", errRestarted, r, debug.Stack())
		}
	}()
	records := update.Records
	for len(records) > 0 {
		revision := records[0].Revision
		var changes []change
		for len(records) > 0 && records[0].Revision == revision {
			c, err := f.decode(records[0])
			if err != nil {
				return err // What is known stays true, and the revision comes again.
			}
			changes, records = append(changes, c), records[1:]
		}
		f.applyRevision(revision, changes)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state.over() {
		return errRestarted
	}
	if update.Revision < f.state.through && len(update.Records) == 0 {
		return errDoubt
	}
	if update.Revision > f.state.through || len(update.Records) == 0 {
		f.state.through = max(f.state.through, update.Revision)
		f.moveLocked()
		f.notifyProgress()
	}
	return nil
}

func (f *Feed) applyRevision(revision int64, changes []change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if revision <= f.state.through {
		return // the watch was opened again and repeats itself
	}
	if f.state.over() {
		return // a new history begins, and the watch is about to end
	}
	events := f.state.apply(revision, changes)
	f.changedLocked()
	f.state.trim(f.cfg.WindowEvents, f.cfg.WindowBytes)
	f.metrics.received.WithLabelValues(f.kind.Group, f.kind.Resource).Add(float64(len(events)))
	f.moveLocked()
	f.notify(revision, events)
}

// moveLocked wakes the readers that wait for a revision.
func (f *Feed) moveLocked() {
	f.metrics.revision.WithLabelValues(f.kind.Group, f.kind.Resource).Set(float64(f.state.through))
	close(f.moved)
	f.moved = make(chan struct{})
}

// reset replaces the state, readable from a revision on, and ends all watches: the new state may
// lack some of their events.
func (f *Feed) reset(state *state, ready int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone {
		return
	}
	f.resetLocked(state, ready, errRestarted)
}

// remove ends the feed for good, since its kind was removed: watches end with scheme.ErrRemoved,
// and so does every wait.
func (f *Feed) remove() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gone = true
	f.resetLocked(nil, 0, scheme.ErrRemoved)
	f.forgetLocked()
}

// counted follows what a reader counted: its kind, and so the feed's metrics, may have been removed meanwhile.
func (f *Feed) counted() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgetLocked()
}

// forgetLocked removes the metrics of a feed that has ended for good, unless its resource is served again.
func (f *Feed) forgetLocked() {
	if f.gone && f.cfg.Table.Stored(f.kind.GroupResource()) == nil {
		f.metrics.forget(f.kind)
	}
}

func (f *Feed) removed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gone
}

// resetLocked replaces the state, and ends all watches with cause.
func (f *Feed) resetLocked(state *state, ready int64, cause error) {
	f.state, f.ready = state, ready
	if state != nil && f.newest.Before(state.history) {
		f.newest = state.history
	}
	f.changedLocked()
	f.starts++
	for _, set := range f.watchers {
		for w := range set {
			w.endLocked(cause)
		}
	}
	close(f.moved)
	f.moved = make(chan struct{})
}

// readable reports whether readers may be told what the feed knows: it has followed etcd to the
// present, and no feed of its etcd has found since that a new history begins. H2.
func (f *Feed) readable() bool {
	return f.state != nil && f.state.through >= f.ready && !f.state.over()
}

// History returns the history of the feed's revisions; the zero History while the feed cannot be
// read.
func (f *Feed) History() fabric.History {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.readable() {
		return fabric.History{}
	}
	return f.state.history
}

// Window returns W and S: the feed knows every change in (start, through]. Both are 0 while the
// feed cannot be read.
func (f *Feed) Window() (start, through int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.readable() {
		return 0, 0
	}
	return f.state.start, f.state.through
}

// Confirm makes the feed ask etcd for its progress now instead of at the next turn. Watchers
// receive the answer as usual.
func (f *Feed) Confirm() {
	select {
	case f.nudge <- struct{}{}:
	default:
	}
}

// Through returns the revision up to which the feed has heard everything; 0 before it has read
// anything.
func (f *Feed) Through() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state == nil {
		return 0
	}
	return f.state.through
}

// WaitFor returns when the feed can be read and has heard everything up to a revision. Its error is
// ctx's error, or scheme.ErrRemoved.
func (f *Feed) WaitFor(ctx context.Context, revision int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for !f.readable() || f.state.through < revision {
		if f.gone {
			return scheme.ErrRemoved
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		f.waiting++
		moved := f.moved
		f.mu.Unlock()
		f.Confirm()
		select {
		case <-moved:
		case <-ctx.Done():
		}
		f.mu.Lock()
		f.waiting--
	}
	return nil
}

// retries returns the delays between attempts: around retryFirst, doubling to around retryLargest,
// as backoff.Around spreads them.
func retries() wait.Backoff { return backoff.Doubling(retryFirst/2, retryLargest/2, 2) }
