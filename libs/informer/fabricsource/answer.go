package fabricsource

import (
	"errors"

	"github.com/garboard/garboard/libs/informer"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

// answer is a complete, parsed answer.
type answer struct {
	outcome watchv1.Outcome
	reason  string
	// statement is the content of the answer; for a whole view its changes are the objects.
	statement
	// fault is why an object cannot be read. The object is in changes as a placeholder.
	fault error
}

func (a answer) objects() []informer.Object {
	objects := make([]informer.Object, len(a.Changes))
	for i, c := range a.Changes {
		objects[i] = c.Object
	}
	return objects
}

// answer parses the chunks of one answer. On an error the answer must be discarded.
func (r reader) answer(chunks []*watchv1.Chunk) (answer, error) {
	read, err := r.view.Answer(chunks)
	if err != nil {
		return answer{}, err
	}
	said := &read.Statement
	a := answer{outcome: read.Outcome, reason: read.Reason}
	a.History, a.Prev, a.Revision = said.History, said.Prev, said.Revision
	for _, e := range said.Changes {
		c, err := r.change(e.GetRevision(), e.GetDeleted(), e.GetNamespace(), e.GetName(), e.GetUid(), e.GetEncoding(), e.GetBody())
		if fault, ok := errors.AsType[*unreadable](err); ok {
			a.fault, c.Object = fault, r.placeholder(c)
		} else if err != nil {
			return answer{}, err
		}
		a.Changes = append(a.Changes, c)
	}
	return a, nil
}
