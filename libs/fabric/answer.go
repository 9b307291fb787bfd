package fabric

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/garboard/garboard/libs/history"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

// Bounds of what one ask may bring.
const (
	maxAnswers     = 4
	maxAnswerBytes = 64 << 20
	maxChunks      = 4096
)

// Assembly puts the chunks of the answers to one ask together. Chunks of different answers
// are never mixed; the first complete answer counts. The zero value is ready. It holds at most
// 4 answers, and all chunks together may have at most 64 MB.
type Assembly struct {
	answers map[uint64]*partial
	bytes   int
}

type partial struct {
	chunks map[uint32]*watchv1.Chunk
	count  uint32
}

// Add takes a chunk. It returns the chunks of an answer in order when that is complete. An error
// says that the chunk is to be discarded.
func (a *Assembly) Add(data []byte) ([]*watchv1.Chunk, error) {
	var chunk watchv1.Chunk
	if err := proto.Unmarshal(data, &chunk); err != nil {
		return nil, fmt.Errorf("reading an answer: %w", err)
	}
	if chunk.GetIndex() >= maxChunks || chunk.GetCount() > maxChunks || chunk.GetCount() != 0 && chunk.GetIndex() >= chunk.GetCount() {
		return nil, fmt.Errorf("reading an answer: chunk %d of %d is not possible", chunk.GetIndex(), chunk.GetCount())
	}
	if a.bytes += len(data); a.bytes > maxAnswerBytes {
		return nil, fmt.Errorf("reading an answer: it has more than %d bytes", maxAnswerBytes)
	}
	if a.answers == nil {
		a.answers = map[uint64]*partial{}
	}
	p := a.answers[chunk.GetAnswer()]
	if p == nil {
		if len(a.answers) >= maxAnswers {
			return nil, errors.New("reading an answer: too many answer the same ask")
		}
		p = &partial{chunks: map[uint32]*watchv1.Chunk{}}
		a.answers[chunk.GetAnswer()] = p
	}
	p.chunks[chunk.GetIndex()] = &chunk
	if chunk.GetCount() > 0 {
		p.count = chunk.GetCount()
	}
	if p.count == 0 || len(p.chunks) < int(p.count) {
		return nil, nil
	}
	chunks := make([]*watchv1.Chunk, p.count)
	for i := range chunks {
		if chunks[i] = p.chunks[uint32(i)]; chunks[i] == nil || len(p.chunks) > len(chunks) {
			return nil, fmt.Errorf("reading an answer: it has chunks beyond the %d it should have", p.count)
		}
	}
	return chunks, nil
}

// Answer is a complete answer.
type Answer struct {
	Outcome watchv1.Outcome
	// Reason is a sentence of the responder when the outcome is an error.
	Reason string
	// History and Revision are those of the answer. They are set when it has content.
	History  history.ID
	Revision int64
	// Prev is where the changes begin: the answer covers (Prev, Revision]. It is Always for a
	// whole view.
	Prev int64
	// Entries are the objects, in the order of the responder.
	Entries []*watchv1.Entry
}

// HasContent reports whether the answer says what is in the view, or what happened there.
func (a *Answer) HasContent() bool {
	return a.Outcome == watchv1.Outcome_OUTCOME_CHANGES || a.Outcome == watchv1.Outcome_OUTCOME_WHOLE
}

// Answer reads the chunks of one answer about the view. It returns an error if the chunks
// disagree, or if what they say cannot be; then the answer is to be thrown away.
func (v View) Answer(chunks []*watchv1.Chunk) (*Answer, error) {
	first := chunks[0]
	a := &Answer{
		Outcome: first.GetOutcome(), Reason: first.GetReason(),
		History: HistoryOf(first.GetHistory()), Revision: first.GetRevision(), Prev: first.GetPrev(),
	}
	whole := a.Outcome == watchv1.Outcome_OUTCOME_WHOLE
	if whole {
		a.Prev = Always
	}
	if a.HasContent() && (a.History == (history.ID{}) || a.Revision <= 0) {
		return nil, errors.New("reading an answer: it has no history or no revision")
	}
	if a.Outcome == watchv1.Outcome_OUTCOME_CHANGES && a.Prev > a.Revision {
		return nil, fmt.Errorf("reading an answer: it covers what is after revision %d, at revision %d", a.Prev, a.Revision)
	}
	for _, chunk := range chunks {
		if chunk.GetOutcome() != a.Outcome || HistoryOf(chunk.GetHistory()) != a.History ||
			chunk.GetRevision() != first.GetRevision() || chunk.GetPrev() != first.GetPrev() {
			return nil, errors.New("reading an answer: its chunks disagree")
		}
		if !a.HasContent() && len(chunk.GetEntries()) > 0 {
			return nil, fmt.Errorf("reading an answer: there are objects in a %v", a.Outcome)
		}
		for _, entry := range chunk.GetEntries() {
			if err := v.check(entry, a.Revision, whole); err != nil {
				return nil, err
			}
		}
		a.Entries = append(a.Entries, chunk.GetEntries()...)
	}
	return a, nil
}

func (v View) check(e *watchv1.Entry, revision int64, whole bool) error {
	if e.GetRevision() <= 0 || e.GetRevision() > revision {
		return fmt.Errorf("reading an answer at revision %d: it has an object of revision %d", revision, e.GetRevision())
	}
	if whole && e.GetDeleted() {
		return errors.New("reading an answer: a deleted object is in a whole view")
	}
	if v.Namespace != "" && e.GetNamespace() != v.Namespace || v.Name != "" && e.GetName() != v.Name {
		return fmt.Errorf("reading an answer: %s/%s is not in the view", e.GetNamespace(), e.GetName())
	}
	return nil
}
