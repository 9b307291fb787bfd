package publish

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/trace"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

const (
	// progressPeriod is the longest time without a progress message; progressPause is the shortest
	// time between two when there is nothing else to send. Informers expect one every 5 s.
	progressPeriod = 4 * time.Second
	progressPause  = time.Second
	retryPause     = time.Second
	cursorWait     = 5 * time.Second
	// confirmPeriod is how often the publisher asks etcd to confirm the feed, until it does so for
	// the first time.
	confirmPeriod = 100 * time.Millisecond
	// removedPatience bounds the attempt to tell informers that a resource is no longer served.
	removedPatience = 2 * time.Second
)

var errWatchEnded = errors.New("the feed ended the watch")

// resource publishes the events of one kind in the order of revisions.
type resource struct {
	kind    *scheme.Kind
	feed    *feed.Feed
	history *watchv1.History
	journal *journal
	bus     Bus
	trace   *trace.Recorder
	logger  *slog.Logger
	metrics *metrics

	unacked  *unacked
	sent     int64 // everything up to here was sent; 0 until it is known
	progress time.Time
	told     time.Time // when a failure to publish was last logged at info level
}

// tellAgain is how often a failure is logged at info level while NATS is away: there are many
// resources, and they retry continually.
const tellAgain = time.Minute

// envelope is space for everything in a message except its body.
const envelope = 8 << 10

func newResource(p *Publisher, kind *scheme.Kind, j *journal) *resource {
	return &resource{
		kind: kind, feed: p.cfg.Feeds.Of(kind), journal: j, bus: p.cfg.Bus, trace: p.cfg.Trace, metrics: p.metrics,
		logger:  p.cfg.Logger.With("resource", kind.GroupResource().String()),
		unacked: &unacked{},
	}
}

// run publishes until ctx ends. After a failure it continues with what was not sent.
func (r *resource) run(ctx context.Context) error {
	defer r.metrics.forget(r.kind)
	var err error
	defer func() {
		// The feed may end before the publisher is told, or the other way round.
		if errors.Is(err, scheme.ErrRemoved) || errors.Is(context.Cause(ctx), scheme.ErrRemoved) {
			r.sendRemoved(ctx)
			r.metrics.remove(r.kind)
		}
	}()
	for {
		err = r.publish(ctx)
		if ctx.Err() != nil || errors.Is(err, scheme.ErrRemoved) {
			return nil
		}
		level := slog.LevelDebug
		if now := time.Now(); now.Sub(r.told) > tellAgain {
			level, r.told = slog.LevelInfo, now
		}
		r.logger.Log(ctx, level, "publishing again", "after", r.sent, "err", err)
		if !backoff.Sleep(ctx, backoff.Around(retryPause)) {
			return nil
		}
	}
}

func (r *resource) publish(ctx context.Context) error {
	if err := r.feed.WaitFor(ctx, 0); err != nil {
		return err
	}
	r.enter(r.feed.History())
	watcher, err := r.begin(ctx)
	if err != nil {
		return err
	}
	defer watcher.Stop()
	// Informers wait for a new publisher's first progress message, so ask etcd at once.
	r.feed.Confirm()
	confirm := time.NewTicker(confirmPeriod)
	defer confirm.Stop()
	// The first batch is what the feed had, not what etcd just reported. It does not prove that the
	// feed still hears etcd.
	for fresh := false; ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-confirm.C:
			r.feed.Confirm() // etcd does not answer before its watch has caught up
		case batch, ok := <-watcher.Events():
			if !ok {
				return errors.Join(errWatchEnded, watcher.Err())
			}
			if err := r.sendBatch(ctx, time.Now(), batch, fresh); err != nil {
				return err
			}
			if fresh {
				confirm.Stop()
			}
			fresh = true
		}
	}
}

// enter begins to publish a history and forgets everything known of another one.
func (r *resource) enter(history fabric.History) {
	if history != fabric.HistoryOf(r.history) {
		r.history, r.sent, r.unacked = history.Wire(), 0, &unacked{}
	}
}

// begin watches the feed from the position at which to publish: P1.
func (r *resource) begin(ctx context.Context) (*feed.Watcher, error) {
	cursor, err := r.cursor(ctx)
	if err != nil {
		return nil, err
	}
	if r.ahead(cursor) {
		bounded, cancel := context.WithTimeout(ctx, cursorWait)
		err := r.feed.WaitFor(bounded, cursor)
		cancel()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			cursor = 0 // the feed is too far behind
		}
	}
	return r.watch(ctx, cursor)
}

// cursor returns where this publisher was, or else where the log says that the last one was; 0 if
// neither is known.
func (r *resource) cursor(ctx context.Context) (int64, error) {
	if r.sent != 0 {
		return r.sent, nil
	}
	return r.loggedCursor(ctx)
}

// ahead reports whether a cursor is above what the feed has heard, although the feed can be read.
func (r *resource) ahead(cursor int64) bool {
	_, through := r.feed.Window()
	return cursor > through && through > 0
}

// watch begins after a cursor, as far back as the feed reaches; at the present if the cursor is 0.
func (r *resource) watch(ctx context.Context, cursor int64) (*feed.Watcher, error) {
	start, through := r.feed.Window()
	if through == 0 {
		return nil, errWatchEnded
	}
	if cursor == 0 {
		cursor = through
	}
	cursor = max(cursor, start)
	r.sent = cursor
	r.unacked.sentThrough(cursor)
	watcher, err := r.feed.Watch(ctx, fabric.View{}, cursor)
	if err != nil {
		return nil, err
	}
	if watcher.History() != fabric.HistoryOf(r.history) {
		watcher.Stop()
		return nil, errWatchEnded // a new history began at this moment
	}
	return watcher, nil
}

// loggedCursor returns the cursor of the log's last message of this history; 0 if there is none. It
// fails if etcd contradicts the message: H2.
func (r *resource) loggedCursor(ctx context.Context) (int64, error) {
	last, ok := r.logged(ctx, subject.Resource(r.kind.Group, r.kind.Resource))
	if !ok {
		return 0, nil
	}
	of := fabric.HistoryOf(last.GetHistory())
	if of.Before(fabric.HistoryOf(r.history)) {
		return 0, nil
	}
	if err := r.feed.Witness(ctx, of, seen(last)); err != nil {
		return 0, err
	}
	if last.GetName() != "" {
		return last.GetCursor(), nil
	}
	// A progress message names no object; the last change does.
	if change, ok := r.logged(ctx, subject.Changes(r.kind.Group, r.kind.Resource)); ok && proto.Equal(change.GetHistory(), last.GetHistory()) {
		if err := r.feed.Witness(ctx, of, seen(change)); err != nil {
			return 0, err
		}
	}
	return last.GetCursor(), nil
}

// logged returns the log's last message of this resource at a subject, if there is one.
func (r *resource) logged(ctx context.Context, subject string) (*watchv1.Message, bool) {
	data, ok := r.journal.last(ctx, subject)
	if !ok {
		return nil, false
	}
	last := &watchv1.Message{}
	if err := proto.Unmarshal(data, last); err != nil {
		r.logger.WarnContext(ctx, "the log's last message cannot be read", "err", err)
		return nil, false
	}
	return last, last.GetGroup() == r.kind.Group && last.GetResource() == r.kind.Resource
}

// seen returns what a message shows that its publisher saw of etcd.
func seen(m *watchv1.Message) store.Record {
	record := store.Record{Revision: m.GetRevision()}
	switch m.GetType() {
	case watchv1.Type_TYPE_PUT:
		record.Namespace, record.Name, record.Raw = m.GetNamespace(), m.GetName(), m.GetBody()
		record.Digest = m.GetStored()
	case watchv1.Type_TYPE_LEFT:
		record.Namespace, record.Name = m.GetNamespace(), m.GetName() // the body is the state before
	case watchv1.Type_TYPE_DELETED:
		// The value may be one that cannot be read.
	}
	return record
}

// sendBatch sends the events, the messages that the log did not accept before, and progress if it
// is due: P2, P4. fresh reports whether etcd has just confirmed the feed up to the batch.
func (r *resource) sendBatch(ctx context.Context, now time.Time, batch feed.Batch, fresh bool) error {
	for _, event := range batch.Events {
		if event.Revision <= r.sent {
			continue
		}
		if err := r.sendEvent(ctx, event); err != nil {
			return err
		}
	}
	r.sent = max(r.sent, batch.Revision)
	r.unacked.sentThrough(r.sent)
	r.metrics.sentThrough(r.kind, r.sent)
	for _, s := range r.unacked.again() {
		if err := r.log(s); err != nil {
			break // they stay in the queue
		}
	}
	since := now.Sub(r.progress)
	if !fresh || since < progressPause || len(batch.Events) > 0 && since < progressPeriod {
		return nil
	}
	return r.sendProgress(ctx, now, batch)
}

// sendEvent sends an event to its object's scope, and notifies the scope that the object left: P3.
func (r *resource) sendEvent(ctx context.Context, event *feed.Event) error {
	began := time.Now()
	message := r.message(event, watchv1.Type_TYPE_PUT, event.Scope, event.PrevScope, event.Raw)
	if event.Deleted {
		message.Type = watchv1.Type_TYPE_DELETED
	}
	if err := r.send(ctx, message); err != nil {
		return err
	}
	if event.Scope != event.OldScope {
		left := r.message(event, watchv1.Type_TYPE_LEFT, event.OldScope, event.PrevOldScope, event.PreviousRaw)
		if err := r.send(ctx, left); err != nil {
			return err
		}
	}
	r.trace.Record(trace.Hop{
		Took: time.Since(began), Service: "apiserver", Step: trace.Publish, Resource: r.kind.Resource,
		Namespace: event.Namespace, Name: event.Name, UID: message.GetUid(), Revision: event.Revision,
	})
	return nil
}

func (r *resource) message(event *feed.Event, what watchv1.Type, scope string, prevScope int64, body []byte) *watchv1.Message {
	message := &watchv1.Message{
		History: r.history, Revision: event.Revision, Type: what,
		Group: r.kind.Group, Version: r.kind.Version, Kind: r.kind.Kind, Resource: r.kind.Resource,
		Namespace: event.Namespace, Name: event.Name, Uid: string(event.Object.GetUID()), Scope: scope,
		PrevAll: event.PrevAll, PrevNamespace: event.PrevNamespace, PrevScope: prevScope, Cursor: r.unacked.cursor(),
		TraceParent: r.trace.Parent(trace.Ref{Resource: r.kind.Resource, Namespace: event.Namespace, Name: event.Name}),
	}
	if what == watchv1.Type_TYPE_LEFT && event.Previous != nil {
		message.Uid = string(event.Previous.GetUID())
	}
	// P5: informers that may not see the whole body, or would see half a revision, must ask.
	if r.kind.Confidential || !event.Alone || len(body) > int(r.bus.MaxPayload())-envelope {
		message.Omitted = true
		return message
	}
	message.Encoding, message.Body = watchv1.EncodingOf(body), body
	if what == watchv1.Type_TYPE_PUT && !event.Deleted {
		message.Stored = event.Digest
	}
	return message
}

func (r *resource) send(ctx context.Context, message *watchv1.Message) error {
	data, err := proto.Marshal(message)
	if err != nil {
		return fmt.Errorf("encoding a watch message: %w", err)
	}
	s := &sent{
		revision: message.GetRevision(), data: data,
		subject: subject.Watch(r.kind.Group, r.kind.Resource, message.GetScope(), message.GetNamespace(), message.GetName()),
		id: fmt.Sprintf("%d.%x/%d/%s/%s/%d", r.history.GetCreated(), r.history.GetNonce(), message.GetRevision(),
			subject.Token(message.GetNamespace()), subject.Token(message.GetName()), message.GetType()),
	}
	r.metrics.messages.WithLabelValues(r.kind.Group, r.kind.Resource, message.GetType().String()).Inc()
	if r.journal.open != nil {
		r.unacked.add(s)
		if err := r.log(s); err == nil || errors.Is(err, bus.ErrNotTracked) {
			return nil // subscribers of the subject get the message from the log's own publish
		}
	}
	return r.bus.Publish(ctx, s.subject, s.data)
}

// log sends a message to the log.
func (r *resource) log(s *sent) error {
	queue := r.unacked // capture it: the history may be another when the acknowledgement arrives
	err := r.journal.publish(s.subject, s.data, s.id, func(err error) { queue.done(s, err) })
	if err != nil {
		queue.done(s, err)
	}
	return err
}

// sendRemoved tells the informers that the resource is no longer served: P7. One that misses the
// message finds out when no progress comes.
func (r *resource) sendRemoved(ctx context.Context) {
	if r.history == nil || r.sent == 0 {
		return // Nothing was ever published.
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removedPatience)
	defer cancel()
	data, err := proto.Marshal(&watchv1.Message{
		History: r.history, Revision: r.sent, Type: watchv1.Type_TYPE_REMOVED, Cursor: r.unacked.cursor(),
		Group: r.kind.Group, Version: r.kind.Version, Kind: r.kind.Kind, Resource: r.kind.Resource,
	})
	if err == nil {
		err = r.bus.Publish(ctx, subject.Progress(r.kind.Group, r.kind.Resource), data)
	}
	if err != nil {
		r.logger.WarnContext(ctx, "could not tell informers that the resource is no longer served", "err", err)
	}
}

// sendProgress states that nothing happened between the last change and the revision seen: P4.
func (r *resource) sendProgress(ctx context.Context, now time.Time, batch feed.Batch) error {
	what := []*watchv1.Message{{Type: watchv1.Type_TYPE_PROGRESS}}
	if r.unacked.takeGap() {
		what = append([]*watchv1.Message{{Type: watchv1.Type_TYPE_GAP}}, what...)
	}
	for _, message := range what {
		message.History, message.Revision, message.PrevAll = r.history, batch.Revision, batch.Head
		message.Group, message.Version, message.Kind, message.Resource = r.kind.Group, r.kind.Version, r.kind.Kind, r.kind.Resource
		message.Cursor, message.WindowStart = r.unacked.cursor(), batch.Start
		data, err := proto.Marshal(message)
		if err != nil {
			return fmt.Errorf("encoding a progress message: %w", err)
		}
		if err := r.bus.Publish(ctx, subject.Progress(r.kind.Group, r.kind.Resource), data); err != nil {
			return err
		}
		r.metrics.messages.WithLabelValues(r.kind.Group, r.kind.Resource, message.GetType().String()).Inc()
	}
	r.metrics.unacked.WithLabelValues(r.kind.Group, r.kind.Resource).Set(float64(r.unacked.waiting()))
	r.progress = now
	return nil
}
