// Package simulation_test runs the watch fabric's own code (feeds, publishers, responders and
// informers) over an etcd in memory and a hostile network, by seed. The invariants of
// docs/explanation/fabric.md must hold after every statement that an informer accepts, and at every
// call of its handler. After a quiet time everything must match etcd.
package simulation_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
)

var (
	table   = scheme.New()
	podKind = scheme.For[*corev1.Pod](table)
)

// tick is the duration of a step.
const tick = 50 * time.Millisecond

// settings describe a world; chances are in percent, rates per ten thousand steps.
type settings struct {
	faults
	// window is how many events a feed keeps.
	window int
	// lag is the chance that a feed or a publisher does not continue just now, leave the chance
	// that an apiserver leaves a dead timeline. progress is the chance that a quiet etcd reports
	// progress, lost the chance that the log loses a message or its acknowledgement.
	lag, leave, progress, lost int
	// noLog removes the log.
	noLog bool
	// The state after the faulty steps: mute means that no apiserver publishes, cutOff that one
	// apiserver cannot reach etcd but still answers.
	mute, cutOff bool
	// messagePayload and answerPayload are NATS' limit, for publishers and responders.
	messagePayload, answerPayload int64
	// writes is the chance of a revision in a step, large that an object is too large for a
	// message.
	writes, large int
	// buffer is how many early messages an informer keeps; 0 means the default.
	buffer int
	// unanswered is how long HTTP waits for an answer before it takes over; 0 means the default.
	unanswered time.Duration
	// away cuts every informer off the bus after the faulty steps.
	away bool
	// Rates; unplug is the rate at which the bus does not reach an informer for a while.
	unplug                                                                                              int
	failover, stop, restart, reconnect, cut, compact, restore, loseLog, disturb, restartInformer, burst int
	// reuse is the chance that a restore does not raise revisions; unnoticed means that such a
	// restore is not announced.
	reuse     int
	unnoticed bool
}

// hostile is everything that can happen, far more often than in reality.
func hostile() settings {
	return settings{
		faults: faults{drop: 8, repeat: 5, late: 8}, window: 24, lag: 35, leave: 2, progress: 20, lost: 5,
		messagePayload: 8<<10 + 600, answerPayload: 1 << 20, writes: 40, large: 4, buffer: 24,
		failover: 60, stop: 40, restart: 40, reconnect: 100, cut: 40, compact: 60, restore: 10, loseLog: 50,
		disturb: 80, restartInformer: 30, burst: 20, reuse: 50,
	}
}

// calm is a world without faults.
func calm() settings {
	return settings{
		window: 24, leave: 100, progress: 50, messagePayload: 8<<10 + 600, answerPayload: 1 << 20, writes: 40, large: 4,
	}
}

// world is the whole simulation and its clock.
type world struct {
	settings
	ctx, ended context.Context
	rand       *rand.Rand
	now        time.Time
	etcd       *etcd
	network    *network
	journal    *journal
	apiservers []*apiserver
	clients    []*client
	taps       []*tap
	uids       int
	failure    string
	steps      int
	quiet      bool

	// expected is what etcd holds of the view whose handler is called.
	expected map[string]value
}

// views are what the informers follow.
var views = []struct {
	name string
	informer.View
}{
	{"whole", informer.View{}}, {"whole too", informer.View{}},
	{"namespace a", informer.View{Namespace: "a"}}, {"namespace b", informer.View{Namespace: "b"}},
	{"node n1", informer.View{Scope: "n1"}}, {"node n2", informer.View{Scope: "n2"}}, {"unbound", informer.View{Scope: scheme.Unscoped}},
	{"a/p1", informer.View{Namespace: "a", Name: "p1"}},
}

func newWorld(t testing.TB, seed uint64, s settings) *world {
	w := &world{
		settings: s, ctx: t.Context(), ended: endedContext(t.Context()), rand: rand.New(rand.NewPCG(seed, 5)),
		now: time.Unix(1_000_000, 0), etcd: newEtcd(),
	}
	w.network = &network{world: w, subscribed: map[string][]*client{}}
	w.journal = &journal{network: w.network}
	for range 8 {
		w.write()
	}
	for range 3 {
		a := newApiserver(w)
		a.connect()
		w.apiservers = append(w.apiservers, a)
	}
	w.apiservers[0].lead(w.now.Add(100 * time.Hour))
	for _, v := range views {
		c := &client{world: w, name: v.name, view: v.View}
		w.clients = append(w.clients, c)
		c.restart()
	}
	return w
}

func (w *world) chance(percent int) bool { return percent > 0 && w.rand.IntN(100) < percent }

func (w *world) rate(perTenThousand int) bool {
	return perTenThousand > 0 && w.rand.IntN(10_000) < perTenThousand
}

// fail records the first violation.
func (w *world) fail(format string, args ...any) {
	if w.failure == "" {
		w.failure = fmt.Sprintf("step %d: %s", w.steps, fmt.Sprintf(format, args...))
	}
}

// write creates one revision: of another resource, of one pod, or of several.
func (w *world) write() {
	n := 1
	switch {
	case w.chance(12):
		n = 0
	case w.chance(10):
		n = 2 + w.rand.IntN(3)
	}
	life := w.etcd.now()
	state := life.at(life.head()).state
	var puts []put
	touched := map[string]bool{}
	for range n {
		p := put{namespace: []string{"a", "b"}[w.rand.IntN(2)], name: fmt.Sprint("p", w.rand.IntN(4))}
		key := p.namespace + "/" + p.name
		if touched[key] {
			continue
		}
		touched[key] = true
		old, exists := state[key]
		switch {
		case exists && w.chance(25):
			// a deletion has no uid
		case exists:
			p.uid, p.node = old.uid, nodeOf(old)
			if w.chance(50) {
				p.node = []string{"n1", "n2", ""}[w.rand.IntN(3)]
			}
		default:
			w.uids++
			p.uid = fmt.Sprint("uid", w.uids)
			p.node = []string{"n1", ""}[w.rand.IntN(2)]
		}
		if w.chance(w.large) {
			p.bytes = 1000
		}
		puts = append(puts, p)
	}
	life.commit(puts...)
}

// step is one tick of everything.
func (w *world) step() {
	w.steps++
	w.now = w.now.Add(tick)
	if w.chance(w.writes) {
		w.write()
	}
	w.happen()
	for _, a := range w.apiservers {
		a.step()
	}
	w.network.queue.deliver(w.now)
	w.flow()
	for _, c := range w.clients {
		c.step()
	}
}

// happen triggers events at their rates.
func (w *world) happen() {
	i := w.rand.IntN(len(w.apiservers))
	a := w.apiservers[i]
	if w.rate(w.failover) {
		for _, other := range w.apiservers {
			// the old leader does not know yet, for a while
			other.leads = w.now.Add(time.Duration(w.rand.IntN(5000)) * time.Millisecond)
		}
		a.lead(w.now.Add(100 * time.Hour))
	}
	if w.rate(w.stop) {
		a.stopped = w.now.Add(time.Duration(w.rand.IntN(10_000)) * time.Millisecond)
	}
	if w.rate(w.restart) {
		leads := a.publisher != nil
		a.gone = true
		w.apiservers[i] = newApiserver(w)
		w.apiservers[i].connect()
		if leads {
			w.apiservers[w.rand.IntN(len(w.apiservers))].lead(w.now.Add(100 * time.Hour))
		}
	}
	if w.rate(w.reconnect) && a.conn.life == w.etcd.now() {
		a.connect()
	}
	if w.rate(w.cut) {
		a.conn.cut = true
	}
	if a.conn.cut && w.rate(100) {
		a.conn.cut = false
		a.connect()
	}
	if life := w.etcd.now(); w.rate(w.compact) {
		life.compacted = max(life.compacted, life.head()-int64(w.rand.IntN(20)), life.first)
	}
	if w.rate(w.restore) {
		if w.chance(w.reuse) {
			w.etcd.reuse(w.rand.IntN(12), !w.unnoticed)
		} else {
			w.etcd.bump(w.rand.IntN(12))
		}
	}
	if w.rate(w.loseLog) {
		switch w.rand.IntN(4) {
		case 0:
			w.journal.lose(w.rand.IntN(40))
		case 1:
			w.journal.truncate(w.rand.IntN(40))
		case 2:
			w.journal.kept = nil
		case 3:
			w.journal.away = !w.journal.away
		}
	}
	c := w.clients[w.rand.IntN(len(w.clients))]
	if w.rate(w.disturb) {
		c.driven.Disturbed(w.now)
	}
	if w.rate(w.unplug) {
		c.away = w.now.Add(time.Duration(w.rand.IntN(60_000)) * time.Millisecond)
	}
	if !c.away.IsZero() && !c.cutOff() {
		c.away = time.Time{}
		c.driven.Disturbed(w.now)
	}
	if w.rate(w.restartInformer) {
		c.restart()
	}
	if w.rate(w.burst) {
		for range 10 + w.rand.IntN(50) {
			w.write()
		}
	}
}

// calmDown ends all faults and writes.
func (w *world) calmDown() {
	quiet := calm()
	quiet.mute, quiet.noLog, quiet.cutOff, quiet.unnoticed = w.mute, w.noLog, w.cutOff, w.unnoticed
	quiet.writes, quiet.window, quiet.messagePayload, quiet.answerPayload = 0, w.window, w.messagePayload, w.answerPayload
	quiet.buffer, quiet.unanswered, quiet.away = w.buffer, w.unanswered, w.away
	w.settings, w.quiet = quiet, true
	w.journal.away = false
	for _, c := range w.clients {
		switch {
		case w.away:
			c.away = w.now.Add(100 * time.Hour)
		case !c.away.IsZero():
			c.away = time.Time{}
			c.driven.Disturbed(w.now)
		}
	}
	leader := false
	for _, a := range w.apiservers {
		a.stopped = time.Time{}
		if a.conn.cut {
			a.conn.cut = false
			a.connect()
		}
		leader = leader || a.publisher != nil && a.leads.After(w.now.Add(time.Hour))
	}
	if w.cutOff {
		w.apiservers[2].conn.cut, w.apiservers[2].publisher = true, nil
		w.apiservers[0].lead(w.now.Add(100 * time.Hour))
	} else if !leader {
		w.apiservers[0].lead(w.now.Add(100 * time.Hour))
	}
}

// behind describes the first informer that does not match etcd; empty if all do.
func (w *world) behind() string {
	life := w.etcd.now()
	for _, c := range w.clients {
		at := c.position()
		if at.History != life.history {
			return fmt.Sprintf("%s is in history %v, etcd in %v", c.name, at.History, life.history)
		}
		want := life.view(life.head(), c.view)
		if len(c.told) != len(want) {
			return fmt.Sprintf("%s knows %d pods, etcd holds %d", c.name, len(c.told), len(want))
		}
		for key, v := range want {
			if c.told[key] != (known{v.uid, v.revision}) {
				return fmt.Sprintf("%s: %s is %v, in etcd %v at %d", c.name, key, c.told[key], v.uid, v.revision)
			}
		}
	}
	return ""
}
