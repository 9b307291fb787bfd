package simulation_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garboard/garboard/libs/bus"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

// The scenarios of docs/explanation/fabric-tests.md, by number, unless they need a real etcd and
// NATS. In each, every informer's content is compared with etcd's after every statement.

// scene returns a calm world in which only the test writes, and everything is current.
func scene(t *testing.T, change func(s *settings)) *world {
	t.Helper()
	s := calm()
	s.writes, s.large, s.window = 0, 0, 2000
	if change != nil {
		change(&s)
	}
	w := newWorld(t, 1, s)
	w.settle(t, time.Minute)
	w.run(t, 3*time.Second) // past the second ask
	for _, c := range w.clients {
		c.asks, c.wholes, c.calls, c.adds, c.updates, c.deletes = 0, 0, 0, 0, 0, 0
	}
	return w
}

// run lets time pass.
func (w *world) run(t *testing.T, d time.Duration) {
	t.Helper()
	for end := w.now.Add(d); w.now.Before(end); {
		if w.step(); w.failure != "" {
			t.Fatal(w.failure)
		}
	}
}

// settle lets time pass until every informer matches etcd, and returns how long that took.
func (w *world) settle(t *testing.T, limit time.Duration) time.Duration {
	t.Helper()
	began := w.now
	for w.behind() != "" {
		if w.now.Sub(began) > limit {
			t.Fatalf("after %v: %s", limit, w.behind())
		}
		w.run(t, tick)
	}
	return w.now.Sub(began)
}

func (w *world) client(name string) *client {
	for _, c := range w.clients {
		if c.name == name {
			return c
		}
	}
	panic(name)
}

func (w *world) commit(puts ...put) int64 { return w.etcd.now().commit(puts...) }

// total sums a count over all informers.
func (w *world) total(of func(c *client) int) int {
	sum := 0
	for _, c := range w.clients {
		sum += of(c)
	}
	return sum
}

func asks(c *client) int   { return c.asks }
func wholes(c *client) int { return c.wholes }
func calls(c *client) int  { return c.calls }

func (w *world) want(t *testing.T, what string, got, atLeast, atMost int) {
	t.Helper()
	if got < atLeast || got > atMost {
		t.Errorf("%d %s, want %d to %d", got, what, atLeast, atMost)
	}
}

func pod(name, uid, node string) put { return put{namespace: "a", name: name, uid: uid, node: node} }

func gone(name string) put { return put{namespace: "a", name: name} }

// replaceApiservers ends all apiservers and starts new ones.
func (w *world) replaceApiservers() {
	for i := range w.apiservers {
		w.apiservers[i].gone = true
		w.apiservers[i] = newApiserver(w)
		w.apiservers[i].connect()
	}
	w.apiservers[1].lead(w.now.Add(100 * time.Hour))
}

func TestScenario01DropsRepeatsSwaps(t *testing.T) {
	w := scene(t, func(s *settings) { s.writes = 40; s.faults = faults{} })
	lost := 0
	w.network.loses = func(*client, string) bool {
		if w.chance(10) {
			lost++
			return true
		}
		return false
	}
	w.run(t, time.Minute)
	w.network.loses, w.writes = nil, 0
	w.settle(t, 30*time.Second)
	several := 0
	for _, r := range w.etcd.now().revisions {
		if len(r.records) > 1 {
			several++
		}
	}
	// Each view also asks for the omitted bodies of revisions with several changes.
	w.want(t, "asks", w.total(asks), 1, lost+len(w.clients)*several)
}

func TestScenario02LastMessageLost(t *testing.T) {
	w := scene(t, nil)
	w.network.loses = func(_ *client, subject string) bool { return !strings.HasSuffix(subject, "~progress") }
	w.commit(pod("p1", "new", "n1"))
	w.run(t, 2*time.Second)
	w.network.loses = nil
	w.run(t, 4*time.Second)
	life := w.etcd.now()
	for _, name := range []string{"whole", "whole too"} {
		if at := w.client(name).position(); at.Revision < life.head() {
			t.Errorf("%s is at %d after 5 s", name, at.Revision)
		}
	}
	if took := w.settle(t, 30*time.Second); took > 26*time.Second {
		t.Errorf("the others took %v", took)
	}
}

func TestScenario03PublisherDiesBetweenPublishAndWord(t *testing.T) {
	w := scene(t, nil)
	for i := range 300 {
		w.commit(pod("p1", "stays", []string{"n1", "n2"}[i%2]))
		w.lost = 50
		w.run(t, tick)
		if i%30 == 0 {
			w.apiservers[i%3].gone = true
			w.apiservers[i%3] = newApiserver(w)
			w.apiservers[i%3].connect()
			w.apiservers[(i+1)%3].lead(w.now.Add(time.Hour))
		}
	}
	w.lost = 0
	w.settle(t, time.Minute)
	// The handler itself checks for repeated calls.
	w.want(t, "whole views", w.total(wholes), 0, 0)
}

func TestScenario04TwoPublishersOneFarBehind(t *testing.T) {
	w := scene(t, nil)
	w.apiservers[1].lead(w.now.Add(time.Hour))
	w.run(t, time.Second)
	w.apiservers[1].stopped = w.now.Add(70 * time.Second)
	for range 500 {
		w.commit(pod("p1", "stays", "n1"))
		w.run(t, tick)
	}
	w.run(t, 40*time.Second) // the quiet publisher takes over
	before := w.total(asks)
	sent := w.network.published
	w.run(t, 9*time.Second) // the stopped publisher wakes up
	w.want(t, "messages sent again", w.network.published-sent, 400, 2000)
	w.want(t, "asks for the repeats", w.total(asks)-before, 0, 0)
	w.settle(t, time.Second)
}

func TestScenario05NoPublisher(t *testing.T) {
	w := scene(t, nil)
	w.mute, w.quiet = true, true
	for range 5 * 60 {
		w.commit(pod("p1", "stays", "n1"), put{namespace: "b", name: "p2", uid: "stays too", node: "n2"})
		w.run(t, time.Second)
		for _, c := range w.clients {
			if c.name == "unbound" || w.steps < 1000 {
				continue
			}
			if behind := w.etcd.now().head() - c.position().Revision; behind > 20 {
				t.Fatalf("%s is %d s behind", c.name, behind)
			}
		}
	}
	w.want(t, "whole views except the name's", w.total(wholes)-w.client("a/p1").wholes, 0, 0)
}

func TestScenario06LogSuffixLost(t *testing.T) {
	for _, fresh := range []bool{false, true} {
		w := scene(t, nil)
		for range 50 {
			w.commit(pod("p1", "stays", "n1"))
			w.run(t, tick)
		}
		w.journal.lose(40)
		if fresh {
			w.apiservers[2].lead(w.now.Add(time.Hour))
			w.apiservers[0].leads = w.now
		}
		w.commit(pod("p1", "stays", "n2"))
		w.settle(t, time.Minute)
		w.want(t, "whole views", w.total(wholes), 0, 0)
	}
}

func TestScenario07LogDeletedAndForeign(t *testing.T) {
	w := scene(t, nil)
	foreign, err := proto.Marshal(&watchv1.Message{History: &watchv1.History{Created: 9, Nonce: 9}, Revision: 5, Resource: "pods", Cursor: 1 << 40})
	if err != nil {
		t.Fatal(err)
	}
	for i, spoil := range []func(){
		func() { w.journal.kept = nil },
		func() {
			w.journal.kept = append(w.journal.kept, bus.Message{Subject: "gb.watch.core.pods.x", Data: foreign})
		},
		func() {
			w.journal.kept = append(w.journal.kept, bus.Message{Subject: "gb.watch.core.pods.x", Data: []byte("nonsense")})
		},
		func() { w.journal.lose(len(w.journal.kept) / 2) },
		func() { w.journal.truncate(len(w.journal.kept) - 1) },
	} {
		for range 20 {
			w.commit(pod("p1", "stays", "n1"))
			w.run(t, tick)
		}
		spoil()
		w.apiservers[i%3].lead(w.now.Add(time.Hour))
		w.commit(pod("p1", "stays", "n2"))
		w.run(t, time.Second)
	}
	w.settle(t, time.Minute)
	w.want(t, "whole views", w.total(wholes), 0, 0)
}

func TestScenario08LogAway(t *testing.T) {
	w := scene(t, nil)
	w.journal.away = true
	for range 200 {
		w.commit(pod("p1", "stays", "n1"))
		w.run(t, tick)
		if took := w.settle(t, time.Second); took > 4*tick {
			t.Fatalf("a change took %v while the log is away", took)
		}
	}
	w.journal.away = false
	w.run(t, 5*time.Second)
	var last watchv1.Message
	if n := len(w.journal.kept); n == 0 {
		t.Fatal("the log stays empty")
	} else if err := proto.Unmarshal(w.journal.kept[n-1].Data, &last); err != nil {
		t.Fatal(err)
	}
	w.commit(pod("p1", "stays", "n2"))
	w.run(t, 5*time.Second)
	if err := proto.Unmarshal(w.journal.kept[len(w.journal.kept)-1].Data, &last); err != nil || last.GetCursor() < w.etcd.now().head()-2 {
		t.Errorf("the cursor is at %d, etcd at %d: %v", last.GetCursor(), w.etcd.now().head(), err)
	}
}

func TestScenario09NetworkAway(t *testing.T) {
	w := scene(t, nil)
	w.drop = 100
	for range 100 {
		w.commit(pod("p1", "stays", "n1"))
		w.run(t, tick)
	}
	w.drop = 0
	for _, c := range w.clients {
		c.driven.Disturbed(w.now)
	}
	w.settle(t, time.Second)
	w.want(t, "whole views except the name's", w.total(wholes)-w.client("a/p1").wholes, 0, 0)
}

func TestScenario10ApiserversRestarted(t *testing.T) {
	w := scene(t, nil)
	for range 20 {
		w.commit(pod("p1", "stays", "n1"))
	}
	w.replaceApiservers()
	w.settle(t, 40*time.Second)
	w.want(t, "whole views except the name's", w.total(wholes)-w.client("a/p1").wholes, 0, 0)
}

func TestScenario11ApiserversRestartedAfterCompaction(t *testing.T) {
	w := scene(t, nil)
	w.commit(pod("p9", "new", "n1"))
	for range 20 {
		w.commit()
	}
	w.etcd.now().compacted = w.etcd.now().head()
	w.replaceApiservers()
	w.settle(t, 40*time.Second)
	w.run(t, 20*time.Second)
	// Only the views that contain the new pod were notified, and no equal object caused a call.
	w.want(t, "handler calls", w.total(calls), 4, 4)
	w.want(t, "whole views", w.total(wholes), 4, len(w.clients))
}

func TestScenario13OldAnswers(t *testing.T) {
	w := scene(t, func(s *settings) { s.repeat, s.late = 50, 50 })
	w.apiservers[1].stopped = w.now.Add(time.Hour)
	for i := range 200 {
		w.commit(pod("p1", "stays", []string{"n1", "n2", ""}[i%3]))
		w.run(t, tick)
		w.clients[i%len(w.clients)].driven.Disturbed(w.now)
	}
	w.apiservers[1].stopped = time.Time{}
	w.settle(t, time.Minute)
}

func TestScenario14FailOverForAViewWithoutChanges(t *testing.T) {
	w := scene(t, nil)
	w.etcd.now().compacted = w.etcd.now().head()
	w.replaceApiservers() // feeds that know no head of any view: W
	w.run(t, time.Second)
	before := w.total(asks)
	w.commit(put{namespace: "b", name: "p9", uid: "new", node: "n2"})
	w.settle(t, time.Second)
	w.want(t, "asks of those at or above W", w.total(asks)-before, 0, 0)
}

func TestScenario15FeedRestartsBetweenEvents(t *testing.T) {
	w := scene(t, nil)
	for i := range 30 {
		w.commit(pod("p1", "stays", []string{"n1", "n2"}[i%2]))
		w.run(t, 2*tick)
		w.apiservers[0].open()
	}
	w.settle(t, time.Minute)
}

func TestScenario16ManyDeletionsInOneRevision(t *testing.T) {
	w := scene(t, nil)
	var puts, deletions []put
	for i := range 1000 {
		name := fmt.Sprint("lease", i)
		puts, deletions = append(puts, pod(name, name, []string{"n1", "n2"}[i%2])), append(deletions, gone(name))
	}
	w.commit(puts...)
	w.settle(t, time.Minute)
	before := w.total(asks)
	w.commit(deletions...)
	w.settle(t, time.Second)
	// the informers whole, whole too, namespace a, node n1 and node n2
	w.want(t, "asks", w.total(asks)-before, 5, 5)
}

func TestScenario17Bind(t *testing.T) {
	deliver := map[string]func(subject string) bool{
		"both": func(string) bool { return true },
		"put":  func(subject string) bool { return !strings.Contains(subject, ".~.") },
		"left": func(subject string) bool { return strings.Contains(subject, ".~.") },
	}
	for name, delivers := range deliver {
		t.Run(name, func(t *testing.T) {
			w := scene(t, nil)
			w.commit(pod("p9", "new", ""))
			w.settle(t, time.Second)
			before := w.client("unbound").deletes
			w.network.loses = func(_ *client, subject string) bool {
				return !strings.HasSuffix(subject, "~progress") && !delivers(subject)
			}
			w.late = 50 // in any order
			w.commit(pod("p9", "new", "n1"))
			w.run(t, 4*time.Second)
			w.network.loses, w.late = nil, 0
			w.settle(t, time.Minute)
			for _, c := range w.clients {
				want := 0
				if c.name == "unbound" {
					want = before + 1
				}
				if c.deletes != want {
					t.Errorf("%s got %d deletions, want %d", c.name, c.deletes, want)
				}
			}
		})
	}
}

func TestScenario18ScopeChangesInAGap(t *testing.T) {
	w := scene(t, nil)
	w.commit(pod("p9", "new", "n1"))
	w.settle(t, time.Second)
	w.network.loses = func(*client, string) bool { return true }
	w.commit(pod("p9", "new", "n2"))
	w.commit(pod("p9", "new", "n1"))
	w.run(t, time.Second)
	w.network.loses = nil
	w.settle(t, time.Minute)
	w.want(t, "adds at n2", w.client("node n2").adds, 0, 0)
}

func TestScenario19RecreatedInAGap(t *testing.T) {
	w := scene(t, nil)
	w.commit(pod("p9", "first", "n1"))
	w.settle(t, time.Second)
	adds, deletes := w.client("whole").adds, w.client("whole").deletes
	w.network.loses = func(*client, string) bool { return true }
	w.commit(gone("p9"))
	w.commit(pod("p9", "second", "n2"))
	w.run(t, time.Second)
	w.network.loses = nil
	w.settle(t, time.Minute)
	w.want(t, "deletes", w.client("whole").deletes-deletes, 1, 1)
	w.want(t, "adds", w.client("whole").adds-adds, 1, 1)
	w.want(t, "deletes at n1", w.client("node n1").deletes, 1, 1)
}

func TestScenario20NameViewRecreatedWithTheDeleteLost(t *testing.T) {
	w := scene(t, nil)
	w.commit(pod("p1", "first", "n1"))
	w.settle(t, time.Second)
	c := w.client("a/p1")
	adds, deletes := c.adds, c.deletes
	w.network.loses = func(*client, string) bool { return true }
	w.commit(gone("p1"))
	w.run(t, 2*tick)
	w.network.loses = nil
	w.commit(pod("p1", "second", "n1"))
	w.settle(t, time.Minute)
	w.want(t, "deletes", c.deletes-deletes, 1, 1)
	w.want(t, "adds", c.adds-adds, 1, 1)
}

func TestScenario21QuietNamespace(t *testing.T) {
	w := scene(t, func(s *settings) { s.window = 8192 })
	for range 10_000 / 20 {
		for range 20 {
			w.commit(pod("p1", "stays", "n1"))
		}
		w.run(t, 4*tick)
	}
	w.want(t, "asks in 100 s", w.client("namespace b").asks, 1, 10)
	w.want(t, "handler calls", w.client("namespace b").calls, 0, 0)
	w.want(t, "whole views", w.client("namespace b").wholes, 0, 0)
}

func TestScenario22QuietResource(t *testing.T) {
	w := scene(t, nil)
	for range 3600 / 5 {
		w.commit()
		w.run(t, 5*time.Second)
		for _, c := range w.clients {
			if behind := w.etcd.now().head() - c.position().Revision; behind > 2 {
				t.Fatalf("%s is %d revisions behind", c.name, behind)
			}
		}
	}
	// Every ten minutes the content is compared: I8.
	w.want(t, "asks in an hour", w.total(asks), 0, 6*len(w.clients))
	c := w.client("node n1")
	revision := w.commit()
	c.driven.Require(w.now, revision)
	w.run(t, time.Second)
	if at := c.position().Revision; at < revision {
		t.Errorf("1 s after revision %d was required, the content is at %d", revision, at)
	}
}

func TestScenario23BufferOverflows(t *testing.T) {
	// a fifth of the numbers on the page
	const objects, buffer = 1000, 200
	w := scene(t, func(s *settings) { s.buffer, s.window = buffer, 20_000 })
	var puts []put
	for i := range objects {
		puts = append(puts, pod(fmt.Sprint("many", i), fmt.Sprint("many", i), "n1"))
	}
	w.commit(puts...)
	w.settle(t, time.Minute)
	c := w.client("whole")
	before, first := c.asks, true
	w.network.loses = func(to *client, _ string) bool {
		was := first && to == c
		first = first && !was
		return was
	}
	for _, p := range puts {
		w.commit(gone(p.name))
	}
	for _, a := range w.apiservers {
		a.catchUp()
	}
	w.settle(t, 2*time.Minute)
	w.want(t, "asks", c.asks-before, 1, 2)
}

func TestScenario25LargeObjects(t *testing.T) {
	w := scene(t, nil)
	c := w.client("whole")
	for range 5 {
		p := pod("p9", "large", "n1")
		p.bytes = 5000
		revision := w.commit(p)
		before := c.asks
		w.run(t, 4*tick)
		if c.asks == before || c.position().Revision < revision && c.told["a/p9"].revision == revision {
			t.Errorf("at %v after revision %d, %d asks", c.position(), revision, c.asks-before)
		}
		w.settle(t, 5*time.Second)
	}
	for _, m := range w.journal.kept {
		var message watchv1.Message
		if err := proto.Unmarshal(m.Data, &message); err != nil || len(message.GetBody()) > 2000 {
			t.Errorf("%d bytes in the log: %v", len(message.GetBody()), err)
		}
	}
}

func TestScenario26RestartWhileAResponderLags(t *testing.T) {
	w := scene(t, nil)
	w.apiservers[1].conn.cut = true
	for range 50 {
		w.commit(pod("p1", "stays", "n1"))
	}
	w.settle(t, time.Minute)
	for range 20 {
		w.client("node n1").restart()
		w.run(t, 10*time.Second) // its checks detect a first state that is older than the last
	}
	w.settle(t, time.Minute)
}

func TestScenario30RestoredAsItShouldBe(t *testing.T) {
	w := scene(t, nil)
	w.commit(pod("p9", "dead", "n1"))
	w.settle(t, time.Second)
	late := w.journal.kept[len(w.journal.kept)-1]
	w.etcd.bump(3)
	w.settle(t, time.Minute)
	w.network.publish(late.Subject, late.Data)
	w.run(t, time.Second)
	w.settle(t, time.Second)
	if _, there := w.client("whole").told["a/p9"]; there {
		t.Error("an object that the backup lacks is still there")
	}
}

func TestScenario31RestoredWithoutNoticeAndAllApiserversNew(t *testing.T) {
	w := scene(t, func(s *settings) { s.unnoticed = true })
	for range 10 {
		w.commit(pod("p9", "dead", "n1"))
	}
	w.settle(t, time.Second)
	history := w.etcd.now().history
	w.etcd.reuse(9, false)
	for range 20 {
		w.commit(pod("p8", "of the new life", "n2"))
	}
	w.replaceApiservers() // the new apiservers know nothing of the old life, but the log does
	w.settle(t, time.Minute)
	if w.etcd.now().history == history {
		t.Error("the history is still the old one")
	}
}

// TestScenario31WhatWasHeardAndRequiredIsForgotten: positions heard or required in a history that
// is over are no minimum in the next one; otherwise no responder would ever answer an ask for them.
func TestScenario31WhatWasHeardAndRequiredIsForgotten(t *testing.T) {
	w := scene(t, nil)
	for i := range 20 {
		w.commit(pod(fmt.Sprint("p", i%4), fmt.Sprint("uid", i%4), []string{"n1", "n2", ""}[i%3]))
	}
	w.settle(t, time.Minute)
	for _, c := range w.clients {
		c.driven.Require(w.now, c.position().Revision)
	}
	w.etcd.reuse(12, true)
	w.settle(t, time.Minute)
	// Everything from here on is below what was heard before, and must be asked for.
	w.network.loses = func(_ *client, subject string) bool { return !strings.HasSuffix(subject, ".~progress") }
	w.commit(pod("p1", "new", "n1"))
	w.commit(pod("p2", "too", "n2"), pod("p5", "unbound", ""))
	w.settle(t, 2*time.Minute)
	before := w.total(asks)
	w.run(t, time.Minute)
	if n := w.total(asks) - before; n > len(w.clients) {
		t.Errorf("%d asks in a minute without changes", n)
	}
}

// TestScenario30RestoredFromBeforeAHistory: a backup from before a history began brings an older
// history back. Informers that know the newer one would ignore it: histories only rise.
func TestScenario30RestoredFromBeforeAHistory(t *testing.T) {
	for name, replaced := range map[string]bool{"apiservers that ran through it": false, "new apiservers, and the log": true} {
		t.Run(name, func(t *testing.T) {
			w := scene(t, nil)
			w.commit(pod("p1", "uid1", "n1"), pod("p2", "uid2", ""))
			w.settle(t, time.Minute)
			backup := w.etcd.now()
			w.etcd.reuse(1, true)
			w.settle(t, time.Minute)
			w.commit(pod("p1", "other", "n2"))
			w.settle(t, time.Minute)
			w.etcd.restore(backup)
			if replaced {
				w.replaceApiservers()
			}
			w.settle(t, 2*time.Minute)
			w.commit(pod("p3", "uid3", "n1"))
			w.settle(t, time.Minute)
		})
	}
}
