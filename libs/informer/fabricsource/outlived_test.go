package fabricsource

import (
	"testing"
	"time"

	"github.com/garboard/garboard/libs/informer"
)

// TestAnEtcdThatWasWipedIsFollowed: its history is the older one if the clock was ahead when the
// last one began. When answers that are as new as etcd have said nothing else for long, it counts.
func TestAnEtcdThatWasWipedIsFollowed(t *testing.T) {
	wiped := history{created: 0, nonce: 9}
	m, r := synced(t, true)
	m.require(epoch, 5000)
	now := epoch
	for {
		now = now.Add(repeat)
		m.progress(now, wiped, 3, 3, 0)
		if m.noteHistory(now, wiped, true); m.replace(wiped, []informer.Object{pod("b", "2", 3)}, 3, false) {
			break
		}
		if now.Sub(epoch) > 10*outlived {
			t.Fatal("it is never followed")
		}
	}
	if now.Sub(epoch) < outlived {
		t.Errorf("it was followed after %v", now.Sub(epoch))
	}
	r.expect(t, "replace b/2@3 to 3")
	if m.lacks() {
		t.Error("something of before is waited for")
	}
	next := put("c", "3", 3, 4)
	next.history = wiped
	m.change(now, next, false)
	r.expect(t, "apply +c/3@4 to 4")
}

// TestAnOlderHistoryIsOver as long as anybody speaks of the newer one, and if nobody has said that
// it is what etcd holds now.
func TestAnOlderHistoryIsOver(t *testing.T) {
	older := history{created: 0, nonce: 9}
	for name, step := range map[string]func(m *machine, now time.Time){
		"a publisher goes on":        func(m *machine, now time.Time) { m.noteHistory(now, older, true); m.progress(now, h1, 10, 10, 0) },
		"another server has the new": func(m *machine, now time.Time) { m.noteHistory(now, older, true); m.noteHistory(now, h1, false) },
		"answers are not fresh":      func(m *machine, now time.Time) { m.noteHistory(now, older, false) },
		"only messages":              func(m *machine, now time.Time) { m.progress(now, older, 10, 10, 0) },
		"nobody speaks":              func(*machine, time.Time) {},
	} {
		m, r := synced(t, true)
		now := epoch
		for range 100 {
			now = now.Add(repeat)
			step(m, now)
		}
		if m.replace(older, nil, 100, false) || !m.synced || m.history != h1 {
			t.Errorf("%s: it is followed", name)
		}
		r.expect(t)
	}
}
