package follow

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/garboard/garboard/libs/informer"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

// Bounds of what one ask may bring.
const (
	maxAnswers     = 4
	maxAnswerBytes = 64 << 20
	maxChunks      = 4096
)

// assembly puts the chunks of the answers to one ask together. Chunks of different answers
// are never mixed; the first complete answer counts.
type assembly struct {
	answers map[uint64]*partial
	bytes   int
}

type partial struct {
	chunks map[uint32]*watchv1.Chunk
	count  uint32
}

// add takes a chunk, and gives the chunks of an answer in order when it is complete. An error
// says that the chunk is to be discarded.
func (a *assembly) add(data []byte) ([]*watchv1.Chunk, error) {
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
		if chunks[i] = p.chunks[uint32(i)]; chunks[i] == nil {
			return nil, fmt.Errorf("reading an answer: it has chunks beyond the %d it should have", p.count)
		}
	}
	return chunks, nil
}

// answer is a complete answer, read.
type answer struct {
	outcome watchv1.Outcome
	reason  string
	// statement is what it says; for a whole view changes are the objects.
	statement
	// fault is why an object cannot be read. It is in changes as a placeholder.
	fault error
}

func (a answer) objects() []informer.Object {
	objects := make([]informer.Object, len(a.changes))
	for i, c := range a.changes {
		objects[i] = c.Object
	}
	return objects
}

// answer reads the chunks of one answer. An error says that it is to be thrown away.
func (r reader) answer(chunks []*watchv1.Chunk) (answer, error) {
	first := chunks[0]
	a := answer{outcome: first.GetOutcome(), reason: first.GetReason()}
	a.history, a.prev, a.revision = historyOf(first.GetHistory()), first.GetPrev(), first.GetRevision()
	whole := a.outcome == watchv1.Outcome_OUTCOME_WHOLE
	if whole {
		a.prev = always
	}
	content := whole || a.outcome == watchv1.Outcome_OUTCOME_CHANGES
	if content && (a.history == (history{}) || a.revision <= 0) {
		return answer{}, errors.New("reading an answer: it has no history or no revision")
	}
	for _, chunk := range chunks {
		if chunk.GetOutcome() != a.outcome || historyOf(chunk.GetHistory()) != a.history || chunk.GetRevision() != first.GetRevision() || chunk.GetPrev() != first.GetPrev() {
			return answer{}, errors.New("reading an answer: its chunks disagree")
		}
		if !content && len(chunk.GetEntries()) > 0 {
			return answer{}, fmt.Errorf("reading an answer: there are objects in a %v", a.outcome)
		}
		for _, entry := range chunk.GetEntries() {
			c, err := r.entry(entry, a.revision, whole)
			if fault, ok := errors.AsType[*unreadable](err); ok {
				a.fault, c.Object = fault, r.placeholder(c)
			} else if err != nil {
				return answer{}, err
			}
			a.changes = append(a.changes, c)
		}
	}
	return a, nil
}

func (r reader) entry(e *watchv1.Entry, revision int64, whole bool) (informer.Change, error) {
	if e.GetRevision() <= 0 || e.GetRevision() > revision {
		return informer.Change{}, fmt.Errorf("reading an answer at revision %d: it has an object of revision %d", revision, e.GetRevision())
	}
	if whole && e.GetDeleted() {
		return informer.Change{}, errors.New("reading an answer: a deleted object is in a whole view")
	}
	if r.view.Namespace != "" && e.GetNamespace() != r.view.Namespace || r.view.Name != "" && e.GetName() != r.view.Name {
		return informer.Change{}, fmt.Errorf("reading an answer: %s/%s is not in the view", e.GetNamespace(), e.GetName())
	}
	return r.change(e.GetRevision(), e.GetDeleted(), e.GetNamespace(), e.GetName(), e.GetUid(), e.GetEncoding(), e.GetBody())
}
