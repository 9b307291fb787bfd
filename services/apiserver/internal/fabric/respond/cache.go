package respond

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	// sharedFor is how long an answer is reused for identical asks, and sharedBytes how much is
	// kept for that.
	sharedFor   = time.Second
	sharedBytes = 64 << 20
)

// answerCache keeps the latest answers with content. Many identical asks at once, as after a
// restart of NATS, then cost one encoding.
type answerCache struct {
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

func newAnswerCache() *answerCache { return &answerCache{now: time.Now, made: map[string]kept{}} }

// answer returns an answer at or above the question's minimum: a recent one for another asker, or a
// new one.
func (s *answerCache) answer(q question, maxPayload int) (*encoded, error) {
	if q.checked {
		return q.build(maxPayload)
	}
	key := fmt.Sprintf("%v|%q|%q|%q|%q|%t|%d", q.history, q.kind.GroupResource(), q.view.Namespace, q.view.Name, q.view.Scope, q.has, q.since)
	if answer := s.find(key, q); answer != nil {
		return answer, nil
	}
	made, err, _ := s.flight.Do(key, func() (any, error) {
		answer, err := q.build(maxPayload)
		if err == nil {
			s.keep(key, answer)
		}
		return answer, err
	})
	if answer, ok := made.(*encoded); ok && err == nil && fits(answer, q) {
		return answer, nil
	}
	// This call joined the building of an answer that began too early for this question.
	return q.build(maxPayload)
}

// fits reports whether an answer built for another question also answers this one.
func fits(answer *encoded, q question) bool { return answer.revision >= q.minimum }

func (s *answerCache) find(key string, q question) *encoded {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.made[key]
	if !ok || s.now().Sub(found.at) > sharedFor || !fits(found.answer, q) {
		return nil
	}
	return found.answer
}

func (s *answerCache) keep(key string, answer *encoded) {
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

// sweep drops answers that are too old to be reused.
func (s *answerCache) sweep(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, k := range s.made {
		if now.Sub(k.at) > sharedFor {
			s.bytes -= k.answer.bytes
			delete(s.made, key)
		}
	}
}
