package changefeed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/fabric/wire"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

// Limits of the messages that wait for one that the log may hold further on. A publisher resends
// unacknowledged messages at most this far behind.
const (
	maxWaiting      = 10_000
	maxWaitingBytes = 64 << 20
)

// waiting are messages of the log that do not follow yet, by rising revision.
type waiting struct {
	records []Record
	bytes   int
}

func (w *waiting) add(record Record) {
	order := func(a, b Record) int {
		return cmp.Or(fabric.HistoryOf(a.Message.GetHistory()).Compare(fabric.HistoryOf(b.Message.GetHistory())),
			cmp.Compare(a.Message.GetRevision(), b.Message.GetRevision()))
	}
	at, _ := slices.BinarySearchFunc(w.records, record, func(a, b Record) int { return cmp.Or(order(a, b), -1) })
	w.records = slices.Insert(w.records, at, record)
	w.bytes += proto.Size(record.Message)
}

func (w *waiting) full() bool { return len(w.records) > maxWaiting || w.bytes > maxWaitingBytes }

func (w *waiting) pop() Record {
	first := w.records[0]
	w.bytes -= proto.Size(first.Message)
	w.records[0] = Record{}
	w.records = w.records[1:]
	return first
}

// replay emits what the log holds (rule P6).
func (r *reader) replay(ctx context.Context) error {
	var kept waiting
	ask := &watchv1.HistoryAsk{
		Group: r.Resource.Group, Resource: r.Resource.Resource, Namespace: r.View.Namespace, Name: r.View.Name,
		Scope: r.View.Scope, After: r.After,
	}
	if !r.Since.IsZero() {
		ask.Since = r.Since.UnixNano()
	}
	for {
		page, err := r.page(ctx, ask)
		if errors.Is(err, errNoAnswer) {
			r.Logger.Warn("no apiserver reads the log; retrying", "err", err)
			continue
		}
		if err != nil {
			return err
		}
		if oldest := time.Unix(0, page.GetOldest()); ask.GetFrom() == 0 && (page.GetOldest() == 0 || !r.Since.IsZero() && oldest.After(r.Since)) {
			reason := "the log is empty"
			if page.GetOldest() != 0 {
				reason = "the log only goes back to " + oldest.UTC().Format(time.RFC3339)
			}
			if err := r.gap(Record{}, 0, 0, reason); err != nil {
				return err
			}
		}
		for _, logged := range page.GetMessages() {
			kept.add(Record{Origin: Logged, Time: time.Unix(0, logged.GetTime()).UTC(), Message: logged.GetMessage()})
		}
		ask.From = page.GetNext()
		if err := r.emitReady(&kept, page.GetEnd()); err != nil || page.GetEnd() {
			return err
		}
	}
}

// emitReady emits the records that follow; at the end of the log, all of them with the gaps
// between.
func (r *reader) emitReady(kept *waiting, end bool) error {
	for len(kept.records) > 0 {
		m := kept.records[0].Message
		what := m.GetType()
		verdict := r.place.judge(m)
		if what == watchv1.Type_TYPE_PROGRESS && verdict == fabric.Beyond && !r.View.Whole() {
			verdict = fabric.Known // Something changed elsewhere in the resource.
		}
		if verdict == fabric.Beyond && what != watchv1.Type_TYPE_GAP {
			if !end && !kept.full() && fabric.HistoryOf(m.GetHistory()) == r.place.at.History {
				return nil
			}
			if err := r.hole(kept.records[0]); err != nil {
				return err
			}
		}
		record := kept.pop()
		var err error
		switch {
		case what == watchv1.Type_TYPE_GAP:
			err = r.gap(record, 0, m.GetRevision(), "the publisher gave up on messages that the log did not store")
		case verdict == fabric.Known:
		case what == watchv1.Type_TYPE_PROGRESS:
			r.place.at.History = fabric.HistoryOf(m.GetHistory())
			r.place.pass(m.GetRevision())
		default:
			err = r.change(record)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// hole emits the gap before a record, and moves the position past it.
func (r *reader) hole(record Record) error {
	m := record.Message
	if of := fabric.HistoryOf(m.GetHistory()); of != r.place.at.History {
		r.place = position{view: r.View, at: fabric.Position{History: of}}
		return r.gap(record, 0, m.GetRevision(), "from here on the history of the cluster is another one")
	}
	return r.gap(record, r.place.at.Revision, m.GetRevision(), "the log does not hold what happened in between")
}

// page reads the next page of the log.
func (r *reader) page(ctx context.Context, ask *watchv1.HistoryAsk) (*watchv1.HistoryPage, error) {
	request, err := proto.Marshal(ask)
	if err != nil {
		return nil, fmt.Errorf("encoding an ask for history: %w", err)
	}
	page := &watchv1.HistoryPage{}
	err = r.request(ctx, r.Conn.Client().History(ask.GetGroup(), ask.GetResource()), request, func(data []byte) (bool, error) {
		if err := proto.Unmarshal(data, page); err != nil {
			return false, fmt.Errorf("reading a page of the log: %w", err)
		}
		return true, r.checkPage(page, ask)
	})
	if err != nil {
		return nil, err
	}
	switch page.GetOutcome() {
	case watchv1.HistoryOutcome_HISTORY_OUTCOME_PAGE:
		return page, nil
	case watchv1.HistoryOutcome_HISTORY_OUTCOME_FORBIDDEN, watchv1.HistoryOutcome_HISTORY_OUTCOME_NOT_FOUND:
		return nil, fmt.Errorf("%w: %s", ErrRefused, page.GetReason())
	case watchv1.HistoryOutcome_HISTORY_OUTCOME_NOT_YET, watchv1.HistoryOutcome_HISTORY_OUTCOME_UNSPECIFIED:
	}
	if !backoff.Sleep(ctx, pause) {
		return nil, ctx.Err()
	}
	return nil, fmt.Errorf("%w: %s", errNoAnswer, page.GetReason())
}

// checkPage returns an error if a page makes no progress, or holds messages that are impossible or
// not of the view.
func (r *reader) checkPage(page *watchv1.HistoryPage, ask *watchv1.HistoryAsk) error {
	if page.GetOutcome() != watchv1.HistoryOutcome_HISTORY_OUTCOME_PAGE {
		return nil
	}
	if !page.GetEnd() && page.GetNext() <= ask.GetFrom() {
		return fmt.Errorf("reading a page of the log: it ends at %d, where it begins", page.GetNext())
	}
	for _, logged := range page.GetMessages() {
		m := logged.GetMessage()
		if err := wire.Check(r.Resource, m); err != nil {
			return fmt.Errorf("reading a page of the log: one of its messages: %w", err)
		}
		if what := m.GetType(); what != watchv1.Type_TYPE_PROGRESS && what != watchv1.Type_TYPE_GAP && !r.View.Covers(m) {
			return fmt.Errorf("reading a page of the log: %s/%s is not in the view", m.GetNamespace(), m.GetName())
		}
	}
	return nil
}
