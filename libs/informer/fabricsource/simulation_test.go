package fabricsource

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

// The simulation has an etcd that may be restored from a backup, three apiservers whose feeds lag
// and restart, publishers that fail over, a bus that drops, repeats and reorders, and informers of
// eight views. After every statement an informer's content must be etcd's at its position; after a
// quiet time it must be etcd's now.

// object is one pod in etcd.
type object struct {
	namespace, name, uid, scope string
	revision                    int64
}

func (o object) key() string { return o.namespace + "/" + o.name }

func (o object) in(v informer.View) bool {
	return (v.Namespace == "" || v.Namespace == o.namespace) && (v.Name == "" || v.Name == o.name) && (v.Scope == "" || v.Scope == o.scope)
}

func (o object) pod() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: o.namespace, Name: o.name, UID: types.UID(o.uid), ResourceVersion: strconv.FormatInt(o.revision, 10),
	}}
}

// write is one change in etcd.
type write struct {
	revision int64
	deleted  bool
	now, old object
	existed  bool
}

// timeline is one life of etcd: states[i] is the content at revision first+i.
type timeline struct {
	history fabric.History
	first   int64
	states  []map[string]object
	writes  [][]write
}

func (l *timeline) head() int64 { return l.first + int64(len(l.states)) - 1 }

func (l *timeline) at(revision int64) map[string]object { return l.states[revision-l.first] }

func (l *timeline) view(revision int64, v informer.View) map[string]object {
	found := map[string]object{}
	for key, o := range l.at(revision) {
		if o.in(v) {
			found[key] = o
		}
	}
	return found
}

// taken is a write as a feed received it, with the prevs that it got then.
type taken struct {
	write
	all, namespace, scope, oldScope int64
}

// feed is the feed of one apiserver.
type feed struct {
	life   *timeline
	start  int64 // W
	at     int64 // S
	events []taken
	heads  map[string]int64
}

func (f *feed) head(view string) int64 {
	if r, ok := f.heads[view]; ok {
		return max(r, f.start)
	}
	return f.start
}

// advance applies one revision to the feed.
func (f *feed) advance() {
	if f.at >= f.life.head() {
		return
	}
	f.at++
	heads := map[string]int64{}
	for _, w := range f.life.writes[f.at-f.life.first] {
		t := taken{write: w, all: f.head("all"), namespace: f.head("ns/" + w.now.namespace), scope: f.head("scope/" + w.now.scope)}
		heads["all"], heads["ns/"+w.now.namespace], heads["scope/"+w.now.scope] = f.at, f.at, f.at
		if w.existed && w.old.scope != w.now.scope {
			t.oldScope = f.head("scope/" + w.old.scope)
			heads["scope/"+w.old.scope] = f.at
		}
		f.events = append(f.events, t)
	}
	maps.Copy(f.heads, heads)
	for len(f.events) > 24 {
		// The window moves by whole revisions.
		f.start = f.events[0].revision
		for len(f.events) > 0 && f.events[0].revision <= f.start {
			f.events = f.events[1:]
		}
	}
}

func newFeed(life *timeline, start int64) *feed {
	return &feed{life: life, start: start, at: start, heads: map[string]int64{}}
}

type delivery struct {
	at time.Time
	do func(now time.Time)
}

type simulated struct {
	name    string
	view    informer.View
	reader  reader
	machine *machine
	content map[string]object
	queue   []delivery
	asked   int
}

type simulation struct {
	t     *testing.T
	rand  *rand.Rand
	now   time.Time
	lives []*timeline
	feeds [3]*feed
	// publisher is the feed that publishes, sent the revision up to which it has published.
	publisher int
	sent      int64
	followers []*simulated
	uids      int
	faults    bool
	mute      bool // nothing is published
	failed    bool
}

type nothingCounted struct{}

func (nothingCounted) asked()           {}
func (nothingCounted) gap()             {}
func (nothingCounted) discarded(string) {}
func (nothingCounted) wholeView()       {}
func (nothingCounted) overflow()        {}

func newSimulation(t *testing.T, seed uint64) *simulation {
	s := &simulation{t: t, rand: rand.New(rand.NewPCG(seed, 7)), now: time.Unix(1_000_000, 0), faults: true}
	life := &timeline{history: fabric.History{Created: 1, Nonce: 1}, first: 100, states: []map[string]object{{}}, writes: [][]write{nil}}
	s.lives = []*timeline{life}
	for range 10 {
		s.write()
	}
	for i := range s.feeds {
		s.feeds[i] = newFeed(life, 100)
	}
	s.sent = 100
	for name, view := range map[string]informer.View{
		"whole": {}, "a": {Namespace: "a"}, "b": {Namespace: "b"}, "n1": {Scope: "n1"}, "n2": {Scope: "n2"},
		"unbound": {Scope: scheme.Unscoped}, "name": {Namespace: "a", Name: "p1"}, "n1 in a": {Scope: "n1", Namespace: "a"},
	} {
		f := &simulated{name: name, view: view, reader: reader{kind: &scheme.Kind{Resource: "pods"}, view: view}}
		s.followers = append(s.followers, f)
	}
	slices.SortFunc(s.followers, func(a, b *simulated) int {
		if a.name < b.name {
			return -1
		}
		return 1
	})
	for _, f := range s.followers {
		s.restart(f)
	}
	return s
}

func (s *simulation) restart(f *simulated) {
	f.content, f.queue = nil, nil
	f.machine = newMachine(checkingSink{s: s, f: f}, f.view == informer.View{}, func(d time.Duration) time.Duration {
		if d <= 0 {
			return 0
		}
		return time.Duration(s.rand.Int64N(int64(d)))
	}, nothingCounted{})
	f.machine.start(s.now)
}

func (s *simulation) life() *timeline { return s.lives[len(s.lives)-1] }

func (s *simulation) chance(percent int) bool { return s.rand.IntN(100) < percent }

func (s *simulation) fail(format string, args ...any) {
	s.failed = true
	s.t.Errorf(format, args...)
}

// write writes one revision of one to three changes; some revisions belong to other resources.
func (s *simulation) write() {
	l := s.life()
	state := maps.Clone(l.states[len(l.states)-1])
	revision := l.head() + 1
	var writes []write
	n := 1
	switch {
	case s.chance(15):
		n = 0
	case s.chance(10):
		n = 3
	}
	touched := map[string]bool{}
	for range n {
		o := object{namespace: []string{"a", "b"}[s.rand.IntN(2)], name: fmt.Sprint("p", s.rand.IntN(4)), scope: scheme.Unscoped, revision: revision}
		if touched[o.key()] {
			continue
		}
		touched[o.key()] = true
		old, existed := state[o.key()]
		w := write{revision: revision, old: old, existed: existed}
		switch {
		case existed && s.chance(30):
			w.deleted, w.now = true, old
			w.now.revision = revision
			delete(state, o.key())
		case existed:
			o.uid, o.scope = old.uid, old.scope
			if s.chance(60) {
				o.scope = []string{"n1", "n2", scheme.Unscoped}[s.rand.IntN(3)]
			}
			w.now, state[o.key()] = o, o
		default:
			s.uids++
			o.uid = fmt.Sprint("uid", s.uids)
			w.now, state[o.key()] = o, o
		}
		writes = append(writes, w)
	}
	l.states, l.writes = append(l.states, state), append(l.writes, writes)
}

// restore sets etcd back to an older revision, in a new history.
func (s *simulation) restore() {
	l := s.life()
	keep := len(l.states) - s.rand.IntN(min(8, len(l.states)-1))
	s.lives = append(s.lives, &timeline{
		history: fabric.History{Created: l.history.Created + 1, Nonce: s.rand.Uint64()}, first: l.first,
		states: slices.Clone(l.states[:keep]), writes: slices.Clone(l.writes[:keep]),
	})
}

// send delivers to one informer, with everything that can happen on the way.
func (s *simulation) send(f *simulated, do func(now time.Time)) {
	copies := 1
	if s.faults {
		switch {
		case s.chance(10):
			copies = 0
		case s.chance(5):
			copies = 2
		}
	}
	for range copies {
		delay := time.Duration(s.rand.IntN(5)) * time.Millisecond
		if s.faults && s.chance(10) {
			delay = time.Duration(s.rand.IntN(3000)) * time.Millisecond
		}
		f.queue = append(f.queue, delivery{s.now.Add(delay), do})
	}
}

func (s *simulation) publish() {
	f := s.feeds[s.publisher]
	s.sent = max(s.sent, f.start)
	perRevision := map[int64]int{}
	for _, e := range f.events {
		perRevision[e.revision]++
	}
	for _, e := range f.events {
		if e.revision <= s.sent {
			continue
		}
		omitted := perRevision[e.revision] > 1 || s.chance(5)
		typ := watchv1.Type_TYPE_PUT
		if e.deleted {
			typ = watchv1.Type_TYPE_DELETED
		}
		s.message(f.life.history, e, typ, e.now.scope, e.scope, omitted)
		if e.existed && !e.deleted && e.old.scope != e.now.scope {
			s.message(f.life.history, e, watchv1.Type_TYPE_LEFT, e.old.scope, e.oldScope, omitted)
		}
	}
	s.sent = f.at
}

// message sends one watch message to the informers whose subjects it matches.
func (s *simulation) message(h fabric.History, e taken, typ watchv1.Type, scope string, prevScope int64, omitted bool) {
	m := &watchv1.Message{
		Type: typ, Resource: "pods", Namespace: e.now.namespace, Name: e.now.name, Scope: scope,
		PrevAll: e.all, PrevNamespace: e.namespace, PrevScope: prevScope,
	}
	for _, f := range s.followers {
		view := f.view
		if !view.Covers(m) {
			continue
		}
		st := statement{History: h, Prev: view.Prev(m), Revision: e.revision, Size: 100, Changes: []informer.Change{change(e.now, e.revision, typ != watchv1.Type_TYPE_PUT)}}
		s.send(f, func(now time.Time) { f.machine.change(now, st, omitted) })
	}
}

func change(o object, revision int64, deleted bool) informer.Change {
	return informer.Change{Revision: revision, Deleted: deleted, Namespace: o.namespace, Name: o.name, UID: o.uid, Object: o.pod()}
}

func (s *simulation) progress() {
	f := s.feeds[s.publisher]
	if f.life != s.life() && s.chance(50) || s.sent < f.at {
		return
	}
	h, last, seen := f.life.history, f.head("all"), f.at
	for _, to := range s.followers {
		s.send(to, func(now time.Time) { to.machine.progress(now, h, last, seen, 0) })
	}
}

// answer is one apiserver's answer to an ask (R1, R2).
func (s *simulation) answer(f *simulated, a ask) {
	feed := s.feeds[s.rand.IntN(len(s.feeds))]
	reply := func(do func(now time.Time)) {
		if s.faults && s.chance(15) {
			return
		}
		s.send(f, func(now time.Time) {
			// The follower discards late answers by the ask's number.
			if f.machine.asking && f.machine.current == a {
				do(now)
			}
		})
	}
	same := a.history == feed.life.history
	if a.fresh && feed.life != s.life() {
		return // Its etcd is gone.
	}
	if same && feed.at < a.minimum || a.fresh && feed.at < feed.life.head() {
		reply(func(now time.Time) { f.machine.notYet(now) })
		return
	}
	h, at := feed.life.history, feed.at
	if !same || !a.delta || a.since < feed.start || a.since > feed.at {
		var objects []informer.Object
		for _, o := range feed.life.view(at, f.view) {
			objects = append(objects, o.pod())
		}
		reply(func(now time.Time) { f.machine.answered(now, f.machine.replace(h, objects, at, a.compare)) })
		return
	}
	if a.compare {
		digest := newIndex(0)
		for _, o := range feed.life.view(a.since, f.view) {
			digest.put(o.namespace, o.name, o.uid, o.revision)
		}
		if digest.digest != a.digest {
			s.fail("%s: the digest at %d differs", f.name, a.since)
		}
	}
	newest := map[string]informer.Change{}
	for _, e := range feed.events {
		if e.revision <= a.since {
			continue
		}
		switch {
		case e.now.in(f.view):
			newest[e.now.key()] = change(e.now, e.revision, e.deleted)
		case e.existed && e.old.in(f.view):
			newest[e.now.key()] = change(e.old, e.revision, true)
		}
	}
	st := statement{History: h, Prev: a.since, Revision: at, Changes: slices.Collect(maps.Values(newest))}
	reply(func(now time.Time) { f.machine.answered(now, f.machine.changes(st)) })
}

// step advances the simulation by 50 ms.
func (s *simulation) step(n int) {
	s.now = s.now.Add(50 * time.Millisecond)
	if s.faults {
		if s.chance(40) {
			s.write()
		}
		switch {
		case s.chance(1):
			s.publisher = s.rand.IntN(len(s.feeds))
			f := s.feeds[s.publisher]
			s.sent = f.start + s.rand.Int64N(f.at-f.start+1)
		case s.chance(1):
			i := s.rand.IntN(len(s.feeds))
			at := s.feeds[i].at
			s.feeds[i] = newFeed(s.feeds[i].life, max(s.feeds[i].life.first, at-s.rand.Int64N(10)))
		case s.chance(1) && s.chance(20):
			s.restore()
		case s.chance(1):
			s.followers[s.rand.IntN(len(s.followers))].machine.disturbed(s.now)
		case s.chance(1) && s.chance(30):
			s.restart(s.followers[s.rand.IntN(len(s.followers))])
		}
	}
	for i, f := range s.feeds {
		if f.life != s.life() && (!s.faults || s.chance(2)) {
			l := s.life()
			s.feeds[i] = newFeed(l, max(l.first, l.head()-s.rand.Int64N(12)))
			if i == s.publisher {
				s.sent = s.feeds[i].start
			}
			continue
		}
		for range 3 {
			if !s.faults || s.chance(60) {
				f.advance()
			}
		}
	}
	if !s.mute && (!s.faults || s.chance(70)) {
		s.publish()
	}
	if !s.mute && n%40 == 0 {
		s.progress()
	}
	for _, f := range s.followers {
		s.deliver(f)
		if a, ask := f.machine.tick(s.now); ask {
			f.asked++
			s.answer(f, a)
		}
	}
}

func (s *simulation) deliver(f *simulated) {
	slices.SortStableFunc(f.queue, func(a, b delivery) int { return a.at.Compare(b.at) })
	for len(f.queue) > 0 && !f.queue[0].at.After(s.now) {
		d := f.queue[0]
		f.queue = f.queue[1:]
		d.do(s.now)
	}
}

// checkingSink keeps the content and compares it with etcd's at every call.
type checkingSink struct {
	informer.SinkDefaults
	s *simulation
	f *simulated
}

func (c checkingSink) Replace(at fabric.Position, objects []informer.Object) {
	c.f.content = map[string]object{}
	for _, obj := range objects {
		o := known(obj)
		c.f.content[o.key()] = o
	}
	c.check(at.Revision)
}

func known(obj informer.Object) object {
	return object{namespace: obj.GetNamespace(), name: obj.GetName(), uid: string(obj.GetUID()), revision: revisionOf(obj)}
}

func (c checkingSink) Apply(changes []informer.Change, revision int64) {
	for _, change := range changes {
		key := change.Namespace + "/" + change.Name
		old, had := c.f.content[key]
		switch {
		case change.Deleted && !had:
			if change.Object != nil {
				c.s.fail("%s: %s was deleted but did not exist", c.f.name, key)
			}
		case change.Deleted && old.uid != change.UID:
			c.s.fail("%s: %s is %s, and %s was deleted", c.f.name, key, old.uid, change.UID)
		case change.Deleted:
			delete(c.f.content, key)
		case had && old.revision >= change.Revision:
			c.s.fail("%s: %s goes back from %d to %d", c.f.name, key, old.revision, change.Revision)
		default:
			c.f.content[key] = known(change.Object)
		}
	}
	c.check(revision)
}

func (c checkingSink) check(revision int64) {
	m := c.f.machine
	if m.at.Revision != revision {
		c.s.fail("%s: the position is %d, the sink got %d", c.f.name, m.at.Revision, revision)
	}
	for _, life := range c.s.lives {
		if life.history == m.at.History {
			c.compare(life.view(revision, c.f.view), fmt.Sprint("at ", revision))
			return
		}
	}
	c.s.fail("%s: %v is not a history", c.f.name, m.at.History)
}

func (c checkingSink) compare(want map[string]object, when string) {
	for key, o := range want {
		if got, ok := c.f.content[key]; !ok || got.uid != o.uid || got.revision != o.revision {
			c.s.fail("%s %s: %s is %+v, in etcd it is %+v", c.f.name, when, key, got, o)
		}
	}
	for key := range c.f.content {
		if _, ok := want[key]; !ok {
			c.s.fail("%s %s: %s is not in etcd", c.f.name, when, key)
		}
	}
	if len(c.f.machine.index.objects) != len(want) {
		c.s.fail("%s %s: the index holds %d objects, etcd %d", c.f.name, when, len(c.f.machine.index.objects), len(want))
	}
}

func TestSimulation(t *testing.T) { simulate(t, false) }

// TestSimulationWithoutPublisherAtTheEnd checks that without a publisher the informers hear of
// nothing, but still find every change.
func TestSimulationWithoutPublisherAtTheEnd(t *testing.T) { simulate(t, true) }

func simulate(t *testing.T, mute bool) {
	seeds := uint64(200)
	if testing.Short() {
		seeds = 40
	}
	for seed := range seeds {
		s := newSimulation(t, seed)
		for n := range 600 {
			s.step(n)
			if s.failed {
				t.Fatalf("seed %d, step %d", seed, n)
			}
		}
		s.faults, s.mute = false, mute
		for n := range 1000 {
			s.step(n)
		}
		for _, f := range s.followers {
			sink := checkingSink{s: s, f: f}
			if f.machine.at.History != s.life().history {
				s.fail("%s: the history is not the last one", f.name)
				continue
			}
			sink.compare(s.life().view(s.life().head(), f.view), "at the end")
			if f.machine.fallback {
				s.fail("%s: HTTP has taken over while the bus answers", f.name)
			}
		}
		if s.failed {
			t.Fatalf("seed %d", seed)
		}
	}
}
