package replay

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/fabric/wire"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

// turn reads the log from the ask's position until the page is full or the log ends.
//
// It goes through the messages of the whole resource: a message that reports a gap in the log
// belongs to every view.
func (s *Server) turn(ctx context.Context, log Log, ask *watchv1.HistoryAsk) (*watchv1.HistoryPage, error) {
	page := &watchv1.HistoryPage{Outcome: watchv1.HistoryOutcome_HISTORY_OUTCOME_PAGE, Next: ask.GetFrom()}
	span, err := log.Span(ctx)
	if errors.Is(err, bus.ErrNone) {
		page.End = true
		return page, nil
	}
	if err != nil {
		return nil, err
	}
	if !span.Oldest.IsZero() {
		page.Oldest = span.Oldest.UnixNano()
	}
	began, bytes := time.Now(), 0
	for range pageScan {
		logged, err := next(ctx, log, ask, page.GetNext())
		if errors.Is(err, bus.ErrNone) {
			// Later messages have a sequence above everything that was there before this read.
			page.Next, page.End = max(page.GetNext(), span.Last+1), true
			return page, nil
		}
		if err != nil {
			return nil, err
		}
		if m, ok := wanted(logged, ask); ok {
			entry := &watchv1.LoggedMessage{Time: logged.Time.UnixNano(), Message: m}
			size := proto.Size(entry) + pageRoom
			if bytes > 0 && bytes+size > pageBytes {
				return page, nil // the message is the first of the next page
			}
			if size > int(s.cfg.Bus.MaxPayload()) {
				m.Body, m.Encoding, m.Omitted = nil, 0, true
			}
			page.Messages, bytes = append(page.Messages, entry), bytes+size
		}
		page.Next = logged.Sequence + 1
		if time.Since(began) > pageTime {
			return page, nil
		}
	}
	return page, nil
}

func next(ctx context.Context, log Log, ask *watchv1.HistoryAsk, from uint64) (bus.Logged, error) {
	changes := subject.Resource(ask.GetGroup(), ask.GetResource())
	if from == 0 && ask.GetSince() > 0 {
		return log.NextSince(ctx, changes, time.Unix(0, ask.GetSince()))
	}
	return log.Next(ctx, changes, from)
}

// wanted decodes a message of the log and reports whether the ask covers it. Data that is not a
// watch message of its subject is ignored.
func wanted(logged bus.Logged, ask *watchv1.HistoryAsk) (*watchv1.Message, bool) {
	resource := schema.GroupResource{Group: ask.GetGroup(), Resource: ask.GetResource()}
	m, err := wire.Message(resource, logged.Subject, logged.Data)
	if err != nil || m.GetRevision() <= ask.GetAfter() {
		return nil, false
	}
	switch m.GetType() {
	case watchv1.Type_TYPE_GAP, watchv1.Type_TYPE_PROGRESS:
		return m, logged.Subject == subject.Progress(ask.GetGroup(), ask.GetResource())
	}
	view := fabric.View{Namespace: ask.GetNamespace(), Name: ask.GetName(), Scope: ask.GetScope()}
	// A name without a namespace is that of a cluster-wide object.
	return m, view.Covers(m) && (view.Name == "" || m.GetNamespace() == view.Namespace)
}
