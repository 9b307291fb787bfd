package fabricsource

import (
	"errors"

	"github.com/garboard/garboard/libs/informer"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

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
	whole, err := r.fabricView().Answer(chunks)
	if err != nil {
		return answer{}, err
	}
	a := answer{outcome: whole.Outcome, reason: whole.Reason}
	a.history, a.prev, a.revision = historyOfID(whole.History), whole.Prev, whole.Revision
	for _, e := range whole.Entries {
		c, err := r.change(e.GetRevision(), e.GetDeleted(), e.GetNamespace(), e.GetName(), e.GetUid(), e.GetEncoding(), e.GetBody())
		if fault, ok := errors.AsType[*unreadable](err); ok {
			a.fault, c.Object = fault, r.placeholder(c)
		} else if err != nil {
			return answer{}, err
		}
		a.changes = append(a.changes, c)
	}
	return a, nil
}
