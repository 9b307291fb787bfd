package simulation_test

import (
	"context"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/fabricsource"
	"github.com/garboard/garboard/libs/informer/listwatch"
	"github.com/garboard/garboard/libs/scheme"
)

// below reports whether p is in an older history than q, or earlier in the same one.
func below(p, q fabric.Position) bool {
	if p.History != q.History {
		return p.History.Before(q.History)
	}
	return p.Revision < q.Revision
}

// client is one informer with a handler, across its restarts.
type client struct {
	world    *world
	name     string
	view     informer.View
	subjects []string

	// life counts the processes; the fields below belong to the current one.
	life     int
	driven   *fabricsource.Stepper
	informer informer.SharedInformer[*corev1.Pod]
	handler  informer.Registration
	// told is what the handler knows at the current call's statement.
	told map[string]known
	last fabric.Position
	// of is the life of etcd that last belongs to; setBack reports whether the handler is told
	// about another one.
	of      *timeline
	setBack bool
	// floor is the position of the content before the restart, and floorOf the life it belongs to.
	floor   fabric.Position
	floorOf *timeline
	// away is until when the bus does not reach the process, and again when HTTP may be tried
	// again.
	away, again time.Time
	// counts; over is the number of steps for which HTTP had taken over
	over, asks, wholes, calls, adds, updates, deletes int
}

type known struct {
	uid      string
	revision int64
}

func knownOf(pod *corev1.Pod) known {
	n, err := strconv.ParseInt(pod.ResourceVersion, 10, 64)
	if err != nil {
		n = -1
	}
	return known{uid: string(pod.UID), revision: n}
}

// source hands an informer's sink to the test.
type source struct{ sink informer.Sink }

func (s *source) Follower(_ *scheme.Kind, _ informer.View, sink informer.Sink) informer.Follower {
	s.sink = sink
	return noFollower{}
}

type noFollower struct{ informer.FollowerDefaults }

func (noFollower) Run(context.Context) error { return nil }

// restart begins another process. It has forgotten everything, but must not see anything older than
// what it saw before.
func (c *client) restart() {
	w := c.world
	if below(c.floor, c.last) {
		c.floor, c.floorOf = c.last, c.of
	}
	if c.life++; c.driven != nil {
		c.driven.End()
	}
	c.last, c.of, c.told = fabric.Position{}, nil, map[string]known{}
	source := &source{}
	c.informer = informer.NewSharedInformer[*corev1.Pod](informer.Config{Source: source, Table: table, Logger: quiet}, c.view)
	handler, err := c.informer.AddEventHandler(handler{c})
	if err != nil {
		w.fail("%s: %v", c.name, err)
	}
	c.handler = handler
	c.driven = fabricsource.NewStepper(fabricsource.StepperConfig{
		Table: table, Kind: podKind, View: c.view, Sink: checked{client: c, sink: source.sink}, Buffer: w.buffer,
		HTTP: listwatch.NewWithConfig(listwatch.Config{Client: web{w}, NoWatchList: true}), Unanswered: w.unanswered,
		Random: func(d time.Duration) time.Duration {
			if d <= 0 {
				return 0
			}
			return time.Duration(w.rand.Int64N(int64(d)))
		},
	})
	c.subjects = c.driven.Subjects()
	c.driven.Start(w.now)
}

// step sends the asks that are due.
func (c *client) step() {
	w := c.world
	if w.chance(30) {
		c.driven.List(w.now)
	}
	if !w.now.Before(c.again) {
		over, err := c.driven.HTTP(w.ctx, w.now)
		if err != nil {
			c.again = w.now.Add(time.Duration(w.rand.IntN(1000)) * time.Millisecond)
		}
		if over {
			c.over++
		}
	}
	data, number, send, err := c.driven.Tick(w.now)
	if err != nil {
		w.fail("%s: an ask: %v", c.name, err)
	}
	if !send {
		return
	}
	c.asks++
	if c.cutOff() {
		return
	}
	life := c.life
	w.network.carry(func() {
		a := w.apiservers[w.rand.IntN(len(w.apiservers))]
		a.ask(data, func(messages [][]byte) {
			for _, message := range messages {
				w.network.carry(func() {
					if c.life == life && !c.cutOff() {
						c.driven.Answer(w.now, number, message)
					}
				})
			}
		})
	})
}

// cutOff reports whether the bus does not reach the process.
func (c *client) cutOff() bool { return c.world.now.Before(c.away) }

// position returns the follower's position.
func (c *client) position() fabric.Position {
	at, _ := c.driven.Position()
	return at
}

// checked is an informer's sink that compares the content after each statement.
type checked struct {
	informer.SinkDefaults
	client *client
	sink   informer.Sink
}

func (s checked) Replace(at fabric.Position, objects []informer.Object) {
	s.client.wholes++
	s.sink.Replace(at, objects)
	s.client.accepted(at.Revision)
}

func (s checked) Apply(changes []informer.Change, revision int64) {
	s.sink.Apply(changes, revision)
	s.client.accepted(revision)
}

// accepted checks the invariants after a statement.
func (c *client) accepted(revision int64) {
	at := c.position()
	if at.Revision != revision {
		c.world.fail("%s: the sink got revision %d at %v", c.name, revision, at)
	}
	if below(at, c.last) && !c.world.unnoticed {
		c.world.fail("%s: from %v back to %v", c.name, c.last, at)
	}
	if below(at, c.floor) && !c.world.unnoticed && !c.world.etcd.wentBackTo(at.Revision, c.floorOf) {
		c.world.fail("%s: restarted into the past: it was at %v, and begins at %v", c.name, c.floor, at)
	}
	c.last, c.floor = at, fabric.Position{}
	if c.world.unnoticed {
		// Until the reset is noticed, one history and revision may stand for two contents.
		c.setBack, c.world.expected = true, nil
		informer.Deliver(c.handler)
		return
	}
	life := c.world.etcd.of(at.History.Created, at.History.Nonce, revision)
	if life == nil {
		c.world.fail("%s: etcd never was at %v", c.name, at)
		return
	}
	c.deliver(life)
	c.compare(life.view(revision, c.view), "at a statement")
}

// deliver makes the pending handler calls.
func (c *client) deliver(life *timeline) {
	c.world.expected, c.setBack = life.view(c.last.Revision, c.view), life != c.of
	c.of = life
	informer.Deliver(c.handler)
}

// compare checks that the store, and what the handler was told, match etcd.
func (c *client) compare(want map[string]value, when string) {
	pods := c.informer.Indexer().List()
	if len(pods) != len(want) || len(c.told) != len(want) {
		c.world.fail("%s %s: the store holds %d pods and the handler knows %d, etcd holds %d at %v", c.name, when, len(pods), len(c.told), len(want), c.last)
	}
	for _, pod := range pods {
		key := pod.Namespace + "/" + pod.Name
		v, there := want[key]
		got := knownOf(pod)
		if !there || got.uid != v.uid || got.revision != v.revision || pod.Spec.NodeName != nodeOf(v) {
			c.world.fail("%s %s: %s is %+v on %q in the store, in etcd %+v on %q (%v), at %v", c.name, when, key, got, pod.Spec.NodeName,
				known{v.uid, v.revision}, nodeOf(v), there, c.last)
		}
		if c.told[key] != got {
			c.world.fail("%s %s: %s is %+v in the store, the handler was told %+v", c.name, when, key, got, c.told[key])
		}
	}
}

func nodeOf(v value) string {
	if v.scope == scheme.Unscoped {
		return ""
	}
	return v.scope
}

// handler checks each call.
type handler struct{ *client }

func (h handler) OnAdd(pod *corev1.Pod, _ bool) {
	h.calls++
	h.adds++
	key := pod.Namespace + "/" + pod.Name
	if old, there := h.told[key]; there {
		h.world.fail("%s: %s was added but already is %+v", h.name, key, old)
	}
	h.told[key] = knownOf(pod)
}

func (h handler) OnUpdate(old, pod *corev1.Pod) {
	h.calls++
	h.updates++
	key := pod.Namespace + "/" + pod.Name
	was, now := h.told[key], knownOf(pod)
	switch {
	case was != knownOf(old):
		h.world.fail("%s: %s is updated from %+v, the handler knows %+v", h.name, key, knownOf(old), was)
	case was.uid != now.uid:
		h.world.fail("%s: %s is updated from %+v to another, %+v", h.name, key, was, now)
	case now.revision <= was.revision && !h.setBack:
		h.world.fail("%s: %s goes back from %+v to %+v", h.name, key, was, now)
	}
	h.told[key] = now
}

func (h handler) OnDelete(gone informer.DeletedObject[*corev1.Pod]) {
	h.calls++
	h.deletes++
	was, there := h.told[gone.Key]
	if !there {
		h.world.fail("%s: %s is deleted but did not exist", h.name, gone.Key)
	}
	if uid := string(gone.OptionalObj.GetUID()); uid != was.uid {
		h.world.fail("%s: %s is %+v, but %s is deleted", h.name, gone.Key, was, uid)
	}
	if v, alive := h.world.expected[gone.Key]; alive && v.uid == was.uid {
		h.world.fail("%s: %s is deleted but exists: %+v", h.name, gone.Key, was)
	}
	delete(h.told, gone.Key)
}
