package respond

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"google.golang.org/protobuf/proto"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
)

// answerBytes is the largest answer over the bus; larger ones are listed over HTTP.
const answerBytes = 4 << 20

// errBehind reports that the feed was read anew and cannot answer now.
var errBehind = errors.New("this apiserver is reading its watch cache anew")

// question is the part of an ask that determines its answer.
type question struct {
	kind    *scheme.Kind
	feed    *feed.Feed
	history fabric.History
	view    fabric.View
	since   int64
	has     bool  // the asker has the view as it was at since
	minimum int64 // the lowest acceptable revision of the answer; at least since
	digest  uint64
	checked bool // digest is the digest of the view at since
}

// encoded is an answer that can be sent any number of times.
type encoded struct {
	outcome watchv1.Outcome
	reason  string // for an answer without content
	// revision is the answer's revision, or the lowest that a list over HTTP must show.
	revision int64
	bytes    int
	// chunks are complete except for the number of the answer, which differs for each asker.
	chunks [][]byte
}

// tagged returns the messages for one asker.
func (e *encoded) tagged() [][]byte { return fabric.Tag(e.chunks, rand.Uint64()) }

// outcome returns an answer without content.
func outcome(what watchv1.Outcome, history *watchv1.History, reason string) *encoded {
	return outcomeAt(what, history, 0, reason)
}

// outcomeAt is outcome with this apiserver's revision.
func outcomeAt(what watchv1.Outcome, history *watchv1.History, revision int64, reason string) *encoded {
	e := &encoded{outcome: what, reason: reason}
	chunk := &watchv1.Chunk{Count: 1, Outcome: what, History: history, Revision: revision, Reason: reason}
	if err := e.add(chunk); err != nil {
		return &encoded{outcome: what} // a chunk of scalars always encodes
	}
	return e
}

func (e *encoded) add(chunk *watchv1.Chunk) error {
	data, err := proto.Marshal(chunk)
	if err != nil {
		return fmt.Errorf("encoding an answer: %w", err)
	}
	e.chunks = append(e.chunks, data)
	e.bytes += len(data)
	return nil
}

// build answers a question from the feed.
func (q question) build(maxPayload int) (*encoded, error) {
	var statement feed.Statement
	var ok bool
	switch {
	case !q.has, q.differs():
		statement, ok = q.feed.Whole(q.view)
	default:
		statement, ok = q.feed.Since(q.view, q.since)
	}
	if !ok || statement.Revision < q.minimum || statement.History != q.history {
		return nil, errBehind
	}
	if tooMuch(statement, maxPayload) {
		e := &encoded{outcome: watchv1.Outcome_OUTCOME_LIST, revision: q.minimum}
		return e, e.add(&watchv1.Chunk{
			Count: 1, Outcome: e.outcome, History: q.history.Wire(), Revision: e.revision,
			Reason: "the answer is too large for the bus",
		})
	}
	return encode(statement)
}

// differs reports whether the asker's view differs from the feed's although nothing changed since:
// one of them is wrong, and a whole view repairs it.
func (q question) differs() bool {
	if !q.checked {
		return false
	}
	view, ok := q.feed.Unchanged(q.view, q.since)
	if !ok {
		return false
	}
	var sum uint64
	for _, entry := range view.Changes {
		sum += watchv1.EntryDigest(entry.Namespace, entry.Name, entry.UID, entry.Revision)
	}
	return sum != q.digest
}

// tooMuch reports whether the asker must list over HTTP instead: R3.
func tooMuch(statement feed.Statement, maxPayload int) bool {
	total := 0
	for _, entry := range statement.Changes {
		if len(entry.Raw) > maxPayload-fabric.EntryRoom {
			return true
		}
		total += len(entry.Raw)
	}
	return total > answerBytes
}

// encode returns an answer with content: R3.
func encode(statement feed.Statement) (*encoded, error) {
	chunks, err := fabric.Split(statement, func(found feed.Entry) *watchv1.Entry {
		entry := &watchv1.Entry{
			Revision: found.Revision, Deleted: found.Deleted,
			Namespace: found.Namespace, Name: found.Name, Uid: found.UID,
		}
		if !found.Deleted {
			entry.Encoding, entry.Body = watchv1.EncodingOf(found.Raw), found.Raw
		}
		return entry
	})
	if err != nil {
		return nil, err
	}
	e := &encoded{outcome: watchv1.Outcome_OUTCOME_CHANGES, revision: statement.Revision, chunks: chunks}
	if statement.Whole {
		e.outcome = watchv1.Outcome_OUTCOME_WHOLE
	}
	for _, chunk := range chunks {
		e.bytes += len(chunk)
	}
	return e, nil
}
