package publish

import (
	"sync"
)

const (
	// unackedMessages and unackedBytes bound what one resource keeps for resending.
	unackedMessages = 10_000
	unackedBytes    = 64 << 20
	// resendAtOnce is how many messages are resent in one go.
	resendAtOnce = 500
)

// sent is a message that has not been acknowledged.
type sent struct {
	revision int64
	subject  string
	id       string
	data     []byte
	acked    bool
	failed   bool
}

// unacked are the messages of one resource that the log may not have, in the order of revisions.
// They only affect the cursor, which is a hint.
type unacked struct {
	mu      sync.Mutex
	queue   []*sent
	bytes   int
	through int64 // everything up to here was sent
	healthy bool  // the log's last report was a success
	gap     bool  // messages that the log does not have were given up
}

// add adds a message that is about to be sent. If there are too many, all are given up and the log
// has a gap.
func (u *unacked) add(s *sent) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.queue) >= unackedMessages || u.bytes+len(s.data) > unackedBytes {
		u.queue, u.bytes, u.gap = nil, 0, true
	}
	u.queue = append(u.queue, s)
	u.bytes += len(s.data)
}

// done records the log's acknowledgement, or error, for a message.
func (u *unacked) done(s *sent, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.healthy = err == nil
	if err != nil {
		s.failed = !s.acked
		return
	}
	s.acked, s.failed = true, false
	for len(u.queue) > 0 && u.queue[0].acked {
		u.bytes -= len(u.queue[0].data)
		u.queue[0] = nil
		u.queue = u.queue[1:]
	}
}

// sentThrough records that everything up to a revision was sent.
func (u *unacked) sentThrough(revision int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.through = max(u.through, revision)
}

// cursor returns the largest revision up to which the log has everything.
func (u *unacked) cursor() int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.queue) > 0 {
		return min(u.through, u.queue[0].revision-1)
	}
	return u.through
}

// again returns messages to resend: many if the log is healthy, otherwise one as a probe.
func (u *unacked) again() []*sent {
	u.mu.Lock()
	defer u.mu.Unlock()
	limit := 1
	if u.healthy {
		limit = resendAtOnce
	}
	var again []*sent
	for _, s := range u.queue {
		if s.failed {
			s.failed = false
			if again = append(again, s); len(again) == limit {
				break
			}
		}
	}
	return again
}

// takeGap reports, once, that messages were given up since the last call.
func (u *unacked) takeGap() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	gap := u.gap && u.healthy
	if gap {
		u.gap = false
	}
	return gap
}

// waiting returns how many messages the log has not acknowledged.
func (u *unacked) waiting() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.queue)
}
