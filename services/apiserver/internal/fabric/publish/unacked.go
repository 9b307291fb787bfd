package publish

import (
	"sync"
)

const (
	// unackedMessages and unackedBytes bound what is kept of one resource to be sent again.
	unackedMessages = 10_000
	unackedBytes    = 64 << 20
	// resendAtOnce is how many messages are sent again in one go.
	resendAtOnce = 500
)

// sent is a message whose acknowledgement has not come.
type sent struct {
	revision int64
	subject  string
	id       string
	data     []byte
	acked    bool
	failed   bool
}

// unacked are the messages of one resource that the log may not have, in the order of
// revisions. It only moves the cursor, which is a hint.
type unacked struct {
	mu      sync.Mutex
	queue   []*sent
	bytes   int
	through int64 // everything up to here was sent
	healthy bool  // the last word of the log was good
	gap     bool  // messages were given up that the log does not have
}

// add takes in a message that is about to be sent. When there are too many, all are given up
// and the log has a gap.
func (u *unacked) add(s *sent) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.queue) >= unackedMessages || u.bytes+len(s.data) > unackedBytes {
		u.queue, u.bytes, u.gap = nil, 0, true
	}
	u.queue = append(u.queue, s)
	u.bytes += len(s.data)
}

// done takes the log's word on a message.
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

// sentThrough says that everything up to a revision was sent.
func (u *unacked) sentThrough(revision int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.through = max(u.through, revision)
}

// cursor is the largest revision up to which the log has everything.
func (u *unacked) cursor() int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.queue) > 0 {
		return min(u.through, u.queue[0].revision-1)
	}
	return u.through
}

// again gives messages to send again: many when the log is well, one to find out when not.
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

// takeGap says, once, that messages were given up since the last call.
func (u *unacked) takeGap() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	gap := u.gap && u.healthy
	if gap {
		u.gap = false
	}
	return gap
}

// waiting is how many messages the log has not acknowledged.
func (u *unacked) waiting() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.queue)
}
