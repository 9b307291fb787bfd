package respond

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	// sharedFor is how long an answer is given to others who ask the same, sharedBytes how
	// much is kept for that.
	sharedFor   = time.Second
	sharedBytes = 64 << 20
)

// sharing keeps the latest answers with content, so that many who ask the same at once, as
// after a restart of NATS, cost one encoding.
type sharing struct {
	flight singleflight.Group
	now    func() time.Time

	mu    sync.Mutex
	made  map[string]kept
	bytes int
}

type kept struct {
	answer *encoded
	at     time.Time
}

func newSharing() *sharing { return &sharing{now: time.Now, made: map[string]kept{}} }

// answer gives an answer at or above the question's minimum: one that was just made for
// somebody else, or a new one.
func (s *sharing) answer(q question, maxPayload int) (*encoded, error) {
	if q.checked {
		return q.make(maxPayload)
	}
	key := fmt.Sprintf("%v|%q|%q|%q|%q|%t|%d", q.known, q.kind.GroupResource(), q.view.Namespace, q.view.Name, q.view.Scope, q.has, q.since)
	if answer := s.find(key, q); answer != nil {
		return answer, nil
	}
	made, err, _ := s.flight.Do(key, func() (any, error) {
		answer, err := q.make(maxPayload)
		if err == nil {
			s.keep(key, answer)
		}
		return answer, err
	})
	if answer, ok := made.(*encoded); ok && err == nil && fits(answer, q) {
		return answer, nil
	}
	// Joined the making of an answer that began before this question's time.
	return q.make(maxPayload)
}

// fits says whether an answer that was made for another is one to this question too.
func fits(answer *encoded, q question) bool { return answer.revision >= q.minimum }

func (s *sharing) find(key string, q question) *encoded {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.made[key]
	if !ok || s.now().Sub(found.at) > sharedFor || !fits(found.answer, q) {
		return nil
	}
	return found.answer
}

func (s *sharing) keep(key string, answer *encoded) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.made[key]; ok {
		s.bytes -= old.answer.bytes
		delete(s.made, key)
	}
	if s.bytes+answer.bytes > sharedBytes {
		return
	}
	s.made[key] = kept{answer: answer, at: s.now()}
	s.bytes += answer.bytes
}

// sweep drops what is too old to be given out.
func (s *sharing) sweep(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, k := range s.made {
		if now.Sub(k.at) > sharedFor {
			s.bytes -= k.answer.bytes
			delete(s.made, key)
		}
	}
}
