package fabricsource

import (
	"testing"
	"time"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
)

// TestAnEtcdThatWasWipedIsFollowed: if the clock was ahead when the last history began, the history
// of a wiped etcd is the older one. It is followed once only such answers, as new as etcd, have
// come for long.
func TestAnEtcdThatWasWipedIsFollowed(t *testing.T) {
	wiped := fabric.History{Created: 0, Nonce: 9}
	m, r := synced(t, true)
	m.require(epoch, 5000)
	now := epoch
	for {
		now = now.Add(repeat)
		m.progress(now, wiped, 3, 3, 0)
		if m.noteHistory(now, wiped, true); m.replace(wiped, []informer.Object{pod("b", "2", 3)}, 3, false) {
			break
		}
		if now.Sub(epoch) > 10*fabric.HistoryGrace {
			t.Fatal("the wiped etcd is never followed")
		}
	}
	if now.Sub(epoch) < fabric.HistoryGrace {
		t.Errorf("the wiped etcd was followed after only %v", now.Sub(epoch))
	}
	r.expect(t, "replace b/2@3 to 3")
	if m.lacks() {
		t.Error("the machine waits for something of the old history")
	}
	next := put("c", "3", 3, 4)
	next.History = wiped
	m.change(now, next, false)
	r.expect(t, "apply +c/3@4 to 4")
}

// TestAnOlderHistoryIsOver checks that an older history stays over while the newer one is still
// heard of, and unless an answer confirms the older one as what etcd holds now.
func TestAnOlderHistoryIsOver(t *testing.T) {
	older := fabric.History{Created: 0, Nonce: 9}
	for name, step := range map[string]func(m *machine, now time.Time){
		"a publisher goes on":        func(m *machine, now time.Time) { m.noteHistory(now, older, true); m.progress(now, h1, 10, 10, 0) },
		"another server has the new": func(m *machine, now time.Time) { m.noteHistory(now, older, true); m.noteHistory(now, h1, false) },
		"answers are not fresh":      func(m *machine, now time.Time) { m.noteHistory(now, older, false) },
		"only messages":              func(m *machine, now time.Time) { m.progress(now, older, 10, 10, 0) },
		"silence":                    func(*machine, time.Time) {},
	} {
		m, r := synced(t, true)
		now := epoch
		for range 100 {
			now = now.Add(repeat)
			step(m, now)
		}
		if m.replace(older, nil, 100, false) || !m.synced || m.at.History != h1 {
			t.Errorf("%s: the older history is followed", name)
		}
		r.expect(t)
	}
}
