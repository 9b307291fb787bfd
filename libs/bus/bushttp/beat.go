package bushttp

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/garboard/garboard/libs/bus"
)

// beatToken is the last token of the subject at which an apiserver receives beats.
const beatToken = "beat"

// beatReply begins the last token of the subject at which the answer to a beat arrives. No call's
// number begins with it.
const beatReply = "-"

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
		t.timer.Reset(t.patience / beatsInPatience)
	}
}

// ask asks every apiserver about its calls.
func (t *Transport) ask() {
	t.mu.Lock()
	asked := map[string][]question{}
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
		reply := t.inbox + "." + beatReply + strconv.FormatUint(number, 36)
		for questions := range slices.Chunk(asked[at], maxBeats) {
			// A beat belongs to no single request, so only the loss of the connection ends it.
			if err := t.conn.PublishRequest(context.Background(), at+"."+beatToken, reply, encodeQuestions(questions)); err != nil {
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
	f, err := decode(m.Data)
	if err != nil || f.kind != kindBeat {
		t.logger.Warn("ignored a malformed answer to a beat", "err", err)
		return
	}
	replies, err := decodeReplies(f.body)
	if err != nil {
		t.logger.Warn("ignored a malformed answer to a beat", "err", err)
		return
	}
	for _, r := range replies {
		if c := t.call(r.call); c != nil {
			c.learn(at, r)
		}
	}
}

// splitAddress splits the subject at which an apiserver receives messages about a call into the
// subject at which it receives beats, without the last token, and the call's number there.
func splitAddress(subject string) (at string, number uint64, ok bool) {
	cut := strings.LastIndexByte(subject, '.')
	if cut < 0 {
		return "", 0, false
	}
	number, err := strconv.ParseUint(subject[cut+1:], 36, 64)
	return subject[:cut], number, err == nil
}
