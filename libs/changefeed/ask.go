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
	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/fabric"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

// errNoAnswer means that no apiserver answered in time, or that none can answer yet.
var errNoAnswer = errors.New("no answer")

// impossible is a name that no object has.
const impossible = "~"

// present learns the present revision and, if wanted, the present objects (rule I1).
func (r *reader) present(ctx context.Context) error {
	view := r.View
	if !r.Objects && view.Name == "" {
		view.Name = impossible // an empty view at the same revision
	}
	answer, err := r.answer(ctx, view, &watchv1.Ask{Fresh: true})
	if err != nil {
		return err
	}
	r.place.at.History = answer.Statement.History
	r.place.pass(answer.Statement.Revision)
	if !r.Objects {
		return nil
	}
	return r.entries(&answer.Statement, Present, 0)
}

// ask asks what happened since the position, at or above the revision minimum; as of now if that is
// 0. It leaves out what was emitted already. If no apiserver can tell what happened, it emits a
// gap. It emits nothing that does not link to the position.
func (r *reader) ask(ctx context.Context, minimum int64) error {
	r.asked = time.Now()
	since := r.place.at.Revision
	if r.place.told != nil {
		since-- // Perhaps not every change of this revision was emitted.
	}
	ask := &watchv1.Ask{History: r.place.at.History.Wire(), Since: &since, Minimum: minimum, Fresh: minimum == 0}
	answer, err := r.answer(ctx, r.View, ask)
	if err != nil {
		return err
	}
	said := &answer.Statement
	other := said.History != r.place.at.History
	switch {
	case said.History.Before(r.place.at.History):
		return unanswered(ctx, fmt.Errorf("the answer is from the history %v, which has ended", said.History))
	case !said.Whole && (other || said.Prev > since):
		return unanswered(ctx, fmt.Errorf("the answer is about what happened after revision %d of history %v, not after %d of %v",
			said.Prev, said.History, since, r.place.at.History))
	case !other && said.Revision < r.place.at.Revision:
		return nil
	}
	if said.Whole {
		reason := "no apiserver can tell any more what happened and what was deleted; newer objects that exist follow"
		from := r.place.at.Revision
		if other {
			reason, from, since = "the history of the cluster is another one; existing objects follow", 0, 0
			r.place = position{view: r.View, at: fabric.Position{History: said.History}}
		}
		if err := r.gap(Record{}, from, said.Revision, reason); err != nil {
			return err
		}
	}
	return r.entries(said, Answered, since)
}

// entries emits the entries of an answer above a revision, in revision order.
func (r *reader) entries(said *fabric.Statement[*watchv1.Entry], origin Origin, above int64) error {
	entries := said.Changes
	slices.SortStableFunc(entries, func(a, b *watchv1.Entry) int { return cmp.Compare(a.GetRevision(), b.GetRevision()) })
	for _, e := range entries {
		m := &watchv1.Message{
			History: said.History.Wire(), Revision: e.GetRevision(), Type: watchv1.Type_TYPE_PUT,
			Group: r.Resource.Group, Resource: r.Resource.Resource, Namespace: e.GetNamespace(), Name: e.GetName(), Uid: e.GetUid(),
			Scope: r.View.Scope, Encoding: e.GetEncoding(), Body: e.GetBody(),
		}
		if e.GetDeleted() {
			m.Type = watchv1.Type_TYPE_DELETED
		}
		if e.GetRevision() <= above || origin == Answered && e.GetRevision() == r.place.at.Revision && r.place.told[keyOf(m)] {
			continue
		}
		if err := r.emit(Record{Origin: origin, Message: m}); err != nil {
			return err
		}
	}
	r.place.pass(said.Revision)
	return nil
}

// answer asks about a view until it gets an answer with content or an error.
func (r *reader) answer(ctx context.Context, view fabric.View, ask *watchv1.Ask) (*fabric.Answer, error) {
	ask.Group, ask.Resource, ask.Namespace, ask.Name, ask.Scope = r.Resource.Group, r.Resource.Resource, view.Namespace, view.Name, view.Scope
	request, err := proto.Marshal(ask)
	if err != nil {
		return nil, fmt.Errorf("encoding an ask: %w", err)
	}
	var parts fabric.Assembly
	var answer *fabric.Answer
	err = r.request(ctx, r.Conn.Client().Ask(r.Resource.Group, r.Resource.Resource), request, func(data []byte) (complete bool, err error) {
		chunks, err := parts.Add(data)
		if err != nil || chunks == nil {
			return false, err
		}
		answer, err = view.Answer(chunks)
		return err == nil, err
	})
	if err != nil {
		return nil, err
	}
	switch answer.Outcome {
	case watchv1.Outcome_OUTCOME_CHANGES, watchv1.Outcome_OUTCOME_WHOLE:
		if ask.Since == nil && answer.Outcome != watchv1.Outcome_OUTCOME_WHOLE {
			return nil, unanswered(ctx, errors.New("the answer has changes where a whole view was asked for"))
		}
		return answer, nil
	case watchv1.Outcome_OUTCOME_FORBIDDEN, watchv1.Outcome_OUTCOME_NOT_FOUND:
		return nil, fmt.Errorf("%w: %s", ErrRefused, answer.Reason)
	case watchv1.Outcome_OUTCOME_LIST:
		return nil, fmt.Errorf("%w: the view is too large for an answer over NATS: read it over HTTP, or read a part of it", ErrRefused)
	case watchv1.Outcome_OUTCOME_NOT_YET, watchv1.Outcome_OUTCOME_UNSPECIFIED:
	}
	return nil, unanswered(ctx, errors.New(answer.Reason))
}

// request sends a request and passes each reply to handle until that reports completion.
func (r *reader) request(life context.Context, subject string, request []byte, handle func(data []byte) (complete bool, err error)) error {
	ctx, cancel := context.WithTimeout(life, insist)
	defer cancel()
	inbox, done := r.Conn.NewInbox(), make(chan error, 1)
	over := false
	sub, err := r.Conn.Subscribe(ctx, inbox, func(m bus.Message) {
		if over {
			return
		}
		complete, err := false, bus.ErrNoResponders
		if !m.NoResponders() {
			complete, err = handle(m.Data)
		}
		if over = complete || err != nil; over {
			done <- err
		}
	})
	if err == nil {
		defer func() {
			sub.Unsubscribe()
			<-sub.Done()
		}()
		err = r.Conn.PublishRequest(ctx, subject, inbox, request)
	}
	if err != nil {
		return unanswered(life, err)
	}
	select {
	case err := <-done:
		if err != nil {
			return unanswered(life, err)
		}
		return nil
	case <-ctx.Done():
		if life.Err() != nil {
			return life.Err()
		}
		return fmt.Errorf("%w in %v", errNoAnswer, insist)
	}
}

// unanswered waits for pause and returns err as errNoAnswer.
func unanswered(ctx context.Context, err error) error {
	if !backoff.Sleep(ctx, pause) {
		return ctx.Err()
	}
	return fmt.Errorf("%w: %w", errNoAnswer, err)
}
