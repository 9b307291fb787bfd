package podcontrol

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/scheme"
)

const (
	// endingTime is how long a refusal holds. It is not for ever, since an apiserver may have refused by an
	// old state of its cache.
	endingTime = time.Minute
	// minimumSweep is from how many owners on those are forgotten whose refusal no longer holds.
	minimumSweep = 1024
)

// ending are owners whose namespaces are being deleted. Nothing stops that deletion, which takes them
// along, so that they need no further pods.
type ending struct {
	mu     sync.Mutex
	owners map[types.UID]refusal
	sweep  int // the number of owners above which old ones are forgotten
}

// refusal is the API's answer to a creation, and when it came.
type refusal struct {
	err  error
	when time.Time
}

// of returns the refusal for an owner; nil if none holds.
func (e *ending) of(owner scheme.Object) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if old := e.owners[owner.GetUID()]; time.Since(old.when) <= endingTime {
		return old.err
	}
	return nil
}

func (e *ending) note(owner scheme.Object, err error) {
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.owners) >= max(e.sweep, minimumSweep) {
		for uid, old := range e.owners {
			if now.Sub(old.when) > endingTime {
				delete(e.owners, uid)
			}
		}
		// Not at each note, if all of them are young.
		e.sweep = 2 * len(e.owners)
	}
	if e.owners == nil {
		e.owners = map[types.UID]refusal{}
	}
	e.owners[owner.GetUID()] = refusal{err, now}
}
