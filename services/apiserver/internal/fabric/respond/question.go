package respond

import (
	"context"
	"errors"
	"fmt"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
)

// question waits for a feed that can be read and returns the question of an ask: R1. Otherwise said
// is the immediate answer, and if both are empty there is no answer.
func (r *Responder) question(ctx context.Context, kind *scheme.Kind, ask *watchv1.Ask) (q question, said *encoded) {
	from := r.cfg.Feeds.Of(kind)
	if err := from.WaitFor(ctx, 0); errors.Is(err, scheme.ErrRemoved) {
		return question{}, outcome(watchv1.Outcome_OUTCOME_NOT_FOUND, nil, scheme.ErrRemoved.Error())
	} else if err != nil {
		return question{}, outcome(watchv1.Outcome_OUTCOME_NOT_YET, nil, errBehind.Error())
	}
	q = questionOf(kind, from, ask)
	if !ask.GetFresh() {
		return q, nil
	}
	through := from.Through()
	now, err := r.cfg.Storage.RevisionOf(ctx, kind)
	if err != nil {
		return question{}, outcome(watchv1.Outcome_OUTCOME_NOT_YET, q.history.Wire(), "etcd does not answer")
	}
	if now < through {
		// Not this feed's etcd: it was set back. No answer is better than one from a dead timeline.
		r.cfg.Logger.ErrorContext(ctx, "etcd is at an older revision than seen before",
			"resource", kind.GroupResource().String(), "revision", now, "seen", through)
		return question{}, nil
	}
	q.minimum = max(q.minimum, now)
	return q, nil
}

// questionOf returns the question of an ask for a feed that can be read: R2.
func questionOf(kind *scheme.Kind, from *feed.Feed, ask *watchv1.Ask) question {
	q := question{
		kind: kind, feed: from, history: from.History(),
		view: fabric.View{Namespace: ask.GetNamespace(), Name: ask.GetName(), Scope: ask.GetScope()},
	}
	// Revisions of another history mean nothing here.
	if ask.GetHistory() != nil && fabric.HistoryOf(ask.GetHistory()) != q.history {
		return q
	}
	q.minimum = ask.GetMinimum()
	if ask.Since != nil {
		q.since, q.has = ask.GetSince(), true
		q.minimum = max(q.minimum, q.since)
	}
	if ask.Digest != nil && q.has {
		q.digest, q.checked = ask.GetDigest(), true
	}
	return q
}

// conclude answers a question after the wait for its minimum.
func (r *Responder) conclude(ctx context.Context, q question) *encoded {
	if through := q.feed.Through(); through < q.minimum {
		return outcomeAt(watchv1.Outcome_OUTCOME_NOT_YET, q.history.Wire(), through, fmt.Sprintf("this apiserver is at revision %d, not at %d", through, q.minimum))
	}
	answer, err := r.cache.answer(q, int(r.cfg.Bus.MaxPayload()))
	if err == nil {
		return answer
	}
	if !errors.Is(err, errBehind) {
		r.cfg.Logger.ErrorContext(ctx, "building an answer failed", "resource", q.kind.GroupResource().String(), "err", err)
	}
	return outcome(watchv1.Outcome_OUTCOME_NOT_YET, q.history.Wire(), err.Error())
}
