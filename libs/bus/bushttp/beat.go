package bushttp

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bushttp/internal/protocol"
)

// beat checks on the calls. The timer calls it.
func (t *Transport) beat() {
	t.mu.Lock()
	if t.closed || len(t.calls) == 0 {
		t.armed = false
		t.mu.Unlock()
		return
	}
	silent := t.list(func(c *call) bool { return c.silent(t.patience) })
	t.mu.Unlock()
	for _, c := range silent {
		c.fail(ErrLost)
		t.remove(c) // Also if it was canceled before an apiserver accepted it.
	}
	t.ask()
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.timer.Reset(t.patience / protocol.BeatsInPatience)
	}
}

// ask asks every apiserver about its calls.
func (t *Transport) ask() {
	t.mu.Lock()
	asked := map[string][]protocol.Question{}
	for _, c := range t.calls {
		if at, q, ok := c.question(); ok {
			asked[at] = append(asked[at], q)
		}
	}
	clear(t.beats)
	for at := range asked {
		t.beaten++
		t.beats[t.beaten] = at
	}
	beats := maps.Clone(t.beats)
	t.mu.Unlock()
	for number, at := range beats {
		reply := t.inbox + "." + protocol.BeatReply + strconv.FormatUint(number, 36)
		for questions := range slices.Chunk(asked[at], protocol.MaxQuestions) {
			// A beat belongs to no single request, so only the loss of the connection ends it.
			if err := t.conn.PublishRequest(context.Background(), at+"."+protocol.BeatToken, reply, protocol.EncodeQuestions(questions)); err != nil {
				t.logger.Debug("could not ask an apiserver about calls", "err", err)
			}
		}
	}
}

// beatenAt returns the apiserver to which a beat was sent.
func (t *Transport) beatenAt(number string) (at string, ok bool) {
	n, err := strconv.ParseUint(number, 36, 64)
	if err != nil {
		return "", false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	at, ok = t.beats[n]
	return at, ok
}

// answered handles the answer to a beat.
func (t *Transport) answered(number string, m bus.Message) {
	at, ok := t.beatenAt(number)
	if !ok {
		return // An answer to an older beat.
	}
	if m.NoResponders() {
		t.mu.Lock()
		gone := t.list(func(c *call) bool { return c.isAt(at) })
		t.mu.Unlock()
		for _, c := range gone {
			c.fail(ErrLost)
		}
		return
	}
	f, err := protocol.Decode(m.Data)
	if err != nil || f.Kind != protocol.KindBeat {
		t.logger.Warn("ignored a malformed answer to a beat", "err", err)
		return
	}
	replies, err := protocol.DecodeReplies(f.Body)
	if err != nil {
		t.logger.Warn("ignored a malformed answer to a beat", "err", err)
		return
	}
	for _, r := range replies {
		if c := t.call(r.Call); c != nil {
			c.learn(at, r)
		}
	}
}
