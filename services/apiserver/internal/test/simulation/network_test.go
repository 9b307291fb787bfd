package simulation_test

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/garboard/garboard/libs/bus"
)

// faults are in percent.
type faults struct{ drop, repeat, late int }

// delivery is something that arrives at a certain time.
type delivery struct {
	at time.Time
	do func()
}

// queue delivers in the order of time, and at equal times in the order of sending.
type queue []delivery

func (q *queue) add(at time.Time, do func()) {
	place := len(*q)
	for place > 0 && (*q)[place-1].at.After(at) {
		place--
	}
	*q = append(*q, delivery{})
	copy((*q)[place+1:], (*q)[place:])
	(*q)[place] = delivery{at, do}
}

// deliver delivers everything that has arrived by now.
func (q *queue) deliver(now time.Time) {
	for len(*q) > 0 && !(*q)[0].at.After(now) {
		do := (*q)[0].do
		*q = (*q)[1:]
		do()
	}
}

// network carries messages from publishers to informers, and asks and answers. It drops, repeats
// and delays them, and thereby reorders them.
type network struct {
	world *world
	queue queue
	// subscribed maps subjects to the clients that receive their messages.
	subscribed map[string][]*client
	// loses reports which watch messages are lost for which client; nil if none are.
	loses func(c *client, subject string) bool
	// published counts the watch messages.
	published int
}

// carry delivers something to one receiver.
func (n *network) carry(do func()) {
	w, copies := n.world, 1
	f := w.faults
	switch {
	case w.chance(f.drop):
		copies = 0
	case w.chance(f.repeat):
		copies = 2
	}
	for range copies {
		delay := time.Duration(w.rand.IntN(4)) * time.Millisecond
		if w.chance(f.late) {
			delay = time.Duration(w.rand.IntN(3000)) * time.Millisecond
		}
		n.queue.add(w.now.Add(delay), do)
	}
}

// publish sends a message to all informers that subscribe to its subject.
func (n *network) publish(subject string, data []byte) {
	receivers, ok := n.subscribed[subject]
	if !ok {
		for _, c := range n.world.clients {
			for _, pattern := range c.subjects {
				if matches(pattern, subject) {
					receivers = append(receivers, c)
					break
				}
			}
		}
		n.subscribed[subject] = receivers
	}
	n.published++
	n.world.verify(subject, data)
	for _, c := range receivers {
		if n.loses != nil && n.loses(c, subject) {
			continue
		}
		life := c.life
		n.carry(func() {
			if c.life == life && !c.cutOff() {
				c.driven.Message(n.world.now, subject, data)
			}
		})
	}
}

// matches implements NATS' matching rule.
func matches(pattern, subject string) bool {
	p, s := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, token := range p {
		if token == ">" {
			return len(s) > i
		}
		if i >= len(s) || token != "*" && token != s[i] {
			return false
		}
	}
	return len(p) == len(s)
}

// line is an apiserver's connection to the network: publish.Bus and respond.Bus.
type line struct {
	network *network
	payload int64
}

func (l *line) MaxPayload() int64 { return l.payload }

func (l *line) Publish(_ context.Context, subject string, data []byte) error {
	l.network.publish(subject, data)
	return nil
}

func (l *line) QueueSubscribe(context.Context, string, string, func(bus.Message), ...bus.SubscribeOption) (*bus.Subscription, error) {
	return nil, errors.New("a driven responder subscribes to nothing")
}

// journal is the log of all messages: publish.Log.
type journal struct {
	network *network
	away    bool
	kept    []bus.Message
}

var (
	errLost = errors.New("no acknowledgement")
	errAway = errors.New("the log is away")
)

// PublishAsync stores and delivers a message; either may fail, and so may the acknowledgement.
func (j *journal) PublishAsync(subject string, data []byte, _ string, acked func(error)) error {
	w := j.network.world
	if j.away {
		return errAway
	}
	if w.chance(w.lost) {
		j.network.queue.add(w.now.Add(2*time.Second), func() { acked(errLost) })
		return nil
	}
	j.kept = append(j.kept, bus.Message{Subject: subject, Data: data})
	j.network.publish(subject, data)
	if w.chance(w.lost) {
		j.network.queue.add(w.now.Add(2*time.Second), func() { acked(errLost) })
		return nil
	}
	j.network.queue.add(w.now.Add(time.Duration(w.rand.IntN(100))*time.Millisecond), func() { acked(nil) })
	return nil
}

func (j *journal) Last(context.Context, string) (bus.Message, error) {
	if j.away {
		return bus.Message{}, errAway
	}
	if len(j.kept) == 0 {
		return bus.Message{}, bus.ErrNone
	}
	return j.kept[len(j.kept)-1], nil
}

func (j *journal) Close() {}

// lose removes the newest messages, truncate the oldest.
func (j *journal) lose(n int) { j.kept = j.kept[:max(0, len(j.kept)-n)] }

func (j *journal) truncate(n int) { j.kept = j.kept[min(n, len(j.kept)):] }
