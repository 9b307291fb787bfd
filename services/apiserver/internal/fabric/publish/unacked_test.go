package publish

import (
	"errors"
	"testing"
)

func TestCursor(t *testing.T) {
	u := &unacked{}
	add := func(revision int64) *sent {
		s := &sent{revision: revision, data: []byte("x")}
		u.add(s)
		return s
	}
	want := func(cursor int64) {
		t.Helper()
		if got := u.cursor(); got != cursor {
			t.Errorf("the cursor is at %d, want %d", got, cursor)
		}
	}
	u.sentThrough(5)
	want(5)
	put, left, next := add(7), add(7), add(9)
	u.sentThrough(9)
	want(6)
	u.done(next, nil)
	want(6) // not beyond a message that was not acknowledged
	u.done(put, nil)
	want(6) // half a revision does not count
	u.done(left, errors.New("lost"))
	want(6)
	if again := u.again(); len(again) != 1 || again[0] != left {
		t.Errorf("to send again: %v", again)
	}
	if again := u.again(); len(again) != 0 {
		t.Errorf("to send a third time: %v", again)
	}
	u.done(left, nil)
	want(9)
	u.done(left, errors.New("a late error for an acknowledged message"))
	if again := u.again(); len(again) != 0 || u.waiting() != 0 {
		t.Errorf("to send though acknowledged: %v", again)
	}
}

func TestAgainIsBounded(t *testing.T) {
	u := &unacked{}
	var all []*sent
	for i := range int64(2 * resendAtOnce) {
		s := &sent{revision: i + 1}
		u.add(s)
		all = append(all, s)
	}
	for _, s := range all {
		u.done(s, errors.New("down"))
	}
	if again := u.again(); len(again) != 1 {
		t.Errorf("%d are sent to a log that is down, want 1", len(again))
	}
	u.done(all[0], nil)
	if again := u.again(); len(again) != resendAtOnce {
		t.Errorf("%d are sent to a log that is up, want %d", len(again), resendAtOnce)
	}
}

func TestTooManyUnacknowledged(t *testing.T) {
	u := &unacked{}
	var last *sent
	for i := range int64(unackedMessages + 1) {
		last = &sent{revision: i + 1}
		u.add(last)
		u.sentThrough(i + 1)
	}
	if n := u.waiting(); n != 1 {
		t.Errorf("%d messages are kept, want 1", n)
	}
	if got := u.cursor(); got != unackedMessages {
		t.Errorf("the cursor is at %d, want a jump to %d", got, unackedMessages)
	}
	if u.takeGap() {
		t.Error("a gap is reported to a log that is down")
	}
	u.done(last, nil)
	if !u.takeGap() || u.takeGap() {
		t.Error("the gap is not reported exactly once")
	}
}
