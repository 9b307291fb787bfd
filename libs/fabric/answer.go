package fabric

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

// Limits of the answers to one ask.
const (
	maxAnswers     = 4
	maxAnswerBytes = 64 << 20
	maxChunks      = 4096
)

// Assembly assembles the chunks of the answers to one ask. It never mixes chunks of different
// answers; the first complete answer counts. The zero value is ready to use. It holds at most 4
// answers, and all chunks together may have at most 64 MB.
type Assembly struct {
	answers map[uint64]*partial
	bytes   int
}

type partial struct {
	chunks map[uint32]*watchv1.Chunk
	count  uint32
}

// Add adds a chunk. When an answer is complete, Add returns its chunks in order. An error means
// that the caller should discard the chunk.
func (a *Assembly) Add(data []byte) ([]*watchv1.Chunk, error) {
	var chunk watchv1.Chunk
	if err := proto.Unmarshal(data, &chunk); err != nil {
		return nil, fmt.Errorf("reading an answer: %w", err)
	}
	if chunk.GetIndex() >= maxChunks || chunk.GetCount() > maxChunks || chunk.GetCount() != 0 && chunk.GetIndex() >= chunk.GetCount() {
		return nil, fmt.Errorf("reading an answer: chunk %d of %d is impossible", chunk.GetIndex(), chunk.GetCount())
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
			return nil, errors.New("reading an answer: too many answers to the same ask")
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
	// Reason is the responder's explanation when the outcome is an error.
	Reason string
	// Statement is the content. If the answer has none, the statement has at most a history and the
	// responder's revision.
	Statement Statement[*watchv1.Entry]
}

// HasContent reports whether the answer holds the content of the view or its changes.
func (a *Answer) HasContent() bool {
	return a.Outcome == watchv1.Outcome_OUTCOME_CHANGES || a.Outcome == watchv1.Outcome_OUTCOME_WHOLE
}

// Answer decodes the chunks of one answer about the view. It returns an error if the chunks
// disagree or their content is impossible; the caller must then discard the answer.
func (v View) Answer(chunks []*watchv1.Chunk) (*Answer, error) {
	first := chunks[0]
	a := &Answer{Outcome: first.GetOutcome(), Reason: first.GetReason()}
	s := &a.Statement
	s.History, s.Prev, s.Revision = HistoryOf(first.GetHistory()), first.GetPrev(), first.GetRevision()
	if s.Whole = a.Outcome == watchv1.Outcome_OUTCOME_WHOLE; s.Whole {
		s.Prev = Always
	}
	if a.HasContent() && (s.History.IsZero() || s.Revision <= 0) {
		return nil, errors.New("reading an answer: it has no history or no revision")
	}
	if a.Outcome == watchv1.Outcome_OUTCOME_CHANGES && s.Prev > s.Revision {
		return nil, fmt.Errorf("reading an answer: it covers what is after revision %d, at revision %d", s.Prev, s.Revision)
	}
	for _, chunk := range chunks {
		if chunk.GetOutcome() != a.Outcome || HistoryOf(chunk.GetHistory()) != s.History ||
			chunk.GetRevision() != first.GetRevision() || chunk.GetPrev() != first.GetPrev() {
			return nil, errors.New("reading an answer: its chunks disagree")
		}
		if !a.HasContent() && len(chunk.GetEntries()) > 0 {
			return nil, fmt.Errorf("reading an answer: there are objects in a %v", a.Outcome)
		}
		for _, entry := range chunk.GetEntries() {
			if err := v.check(entry, s.Revision, s.Whole); err != nil {
				return nil, err
			}
		}
		s.Changes = append(s.Changes, chunk.GetEntries()...)
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
	if !v.Holds(e.GetNamespace(), e.GetName(), v.Scope) { // Entries name no scope.
		return fmt.Errorf("reading an answer: %s/%s is not in the view", e.GetNamespace(), e.GetName())
	}
	return nil
}
