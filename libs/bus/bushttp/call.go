package bushttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/garboard/garboard/libs/bus/bushttp/internal/deadline"
	"github.com/garboard/garboard/libs/bus/bushttp/internal/protocol"
)

// call is a request in flight, and then the body of its response.
type call struct {
	transport  *Transport
	request    *http.Request
	length     int64 // of the request's body; -1 if unknown
	number     uint64
	reconnects uint64 // of the connection, when the call began
	// headed is closed when there is a response or an error; wake notifies Read of a change.
	headed, wake chan struct{}
	// credited notifies upload of more credit; over is closed when nothing more is to be uploaded.
	// Both are nil if the request was sent as a whole.
	credited, over chan struct{}
	// upgrade means that the request asks to switch its connection to another protocol; sending lets one
	// Write at a time send over it.
	upgrade bool
	sending sync.Mutex

	mu       sync.Mutex
	server   string // where the apiserver receives messages about the call; empty until known
	response *http.Response
	queue    [][]byte
	// Bytes of the response body: received, read, and allowed to be sent.
	received, read, granted uint64
	// Bytes of the request body: sent, and allowed to be sent.
	sent, allowed uint64
	heard         time.Time
	done          bool  // no more messages are expected
	err           error // what Read returns when the queue is empty, once done
	settled       bool  // no more of the response is expected
	dropped       bool  // nothing of the response is kept
	held          uint64
	// switched means that the connection is upgraded. Then each direction ends by itself: inEnded is that
	// from the server, outEnded that to it.
	switched, inEnded, outEnded bool
	reading, writing            deadline.Deadline
	unwatch                     func() bool
}

// body is the body of a response.
type body struct{ *call }

var errBodyClosed = errors.New("the response body was closed")

// answer returns the result of RoundTrip, once headed is closed.
func (c *call) answer() (*http.Response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.response == nil {
		return nil, c.err
	}
	if !c.done {
		ctx := c.request.Context()
		c.unwatch = context.AfterFunc(ctx, func() { c.fail(context.Cause(ctx)) })
	}
	switch {
	case c.switched:
		c.response.Body = Conn{body{c}}
	case !c.done || len(c.queue) > 0 || !errors.Is(c.err, io.EOF):
		c.response.Body = body{c}
	}
	return c.response, nil
}

// receive handles a message of the apiserver about the call.
func (c *call) receive(f protocol.Frame, from string) {
	c.mu.Lock()
	c.heard = time.Now()
	if c.server == "" {
		c.server = from
		if c.done {
			// It was canceled before any apiserver could be notified.
			c.mu.Unlock()
			c.notify(protocol.KindAbort, 0)
			c.transport.remove(c)
			return
		}
	}
	if c.done {
		c.mu.Unlock()
		return
	}
	headed, err := false, error(nil)
	switch f.Kind {
	case protocol.KindAnswer:
		headed = f.First()
		err = c.add(f)
	case protocol.KindCredit:
		c.allowed = max(c.allowed, f.Number)
		if c.credited != nil {
			deadline.Signal(c.credited)
		}
	case protocol.KindAbort:
		if err = ErrAborted; c.inEnded {
			err = nil
			c.finish(io.EOF) // The server wants to hear no more.
		}
	case protocol.KindRequest, protocol.KindBeat:
		err = fmt.Errorf("%w: kind %d", protocol.ErrMalformed, f.Kind)
	}
	if err != nil {
		c.mu.Unlock()
		c.fail(err)
		return
	}
	if f.Kind == protocol.KindAnswer && f.Last() {
		if c.inEnded = true; !c.switched || c.outEnded {
			c.finish(c.whole())
		}
	}
	done := c.done
	if headed {
		close(c.headed)
	}
	c.mu.Unlock()
	deadline.Signal(c.wake)
	if done {
		c.transport.remove(c)
	}
}

// add adds a part of the response. The lock is held.
func (c *call) add(f protocol.Frame) error {
	n := uint64(len(f.Body))
	switch {
	case f.First() == (c.response != nil), c.inEnded:
		return fmt.Errorf("%w: a part without a head, or a second head", protocol.ErrMalformed)
	case f.Number != c.received:
		return fmt.Errorf("%w: a part of the response is missing", ErrLost)
	case n > c.granted-c.received:
		return fmt.Errorf("%w: more than the granted credit", protocol.ErrMalformed)
	}
	if f.First() {
		response, err := protocol.DecodeAnswer(f.Head, c.request)
		if err != nil {
			return err
		}
		c.response, c.switched = response, response.StatusCode == http.StatusSwitchingProtocols
	}
	if n > 0 {
		c.queue = append(c.queue, f.Body)
		c.received += n
	}
	return nil
}

// whole returns the error at the end of the response body: io.EOF, or io.ErrUnexpectedEOF if the
// body is incomplete. The lock is held.
func (c *call) whole() error {
	length := c.response.ContentLength
	if !c.switched && protocol.HasBody(c.request.Method, c.response.StatusCode) && length >= 0 && uint64(length) != c.received {
		return io.ErrUnexpectedEOF
	}
	return io.EOF
}

// finish records that no more messages are expected. The lock is held.
func (c *call) finish(err error) {
	c.done, c.err = true, err
	c.reading.Stop()
	c.writing.Stop()
	if c.unwatch != nil {
		c.unwatch()
	}
	if c.over != nil {
		close(c.over)
	}
}

// fail ends the call, here and at the apiserver.
func (c *call) fail(err error) {
	c.mu.Lock()
	if c.done {
		c.mu.Unlock()
		return
	}
	lost := errors.Is(err, ErrLost) || errors.Is(err, ErrAborted) || errors.Is(err, protocol.ErrMalformed)
	if lost {
		c.transport.logger.Debug("lost an API call over NATS", "method", c.request.Method, "path", c.request.URL.Path, "err", err)
	}
	switch {
	case lost && c.inEnded:
		err = io.EOF
	case lost && c.response != nil:
		err = io.ErrUnexpectedEOF
	case lost:
		err = reset(err)
	default:
		c.drop()
	}
	c.finish(err)
	if c.response == nil {
		close(c.headed)
	}
	taken := c.server != ""
	c.mu.Unlock()
	deadline.Signal(c.wake)
	if taken {
		c.notify(protocol.KindAbort, 0)
		c.transport.remove(c)
	}
	// Otherwise it stays known, so that the apiserver that accepted it is notified when its first
	// message arrives.
}

// unheard handles the server's notice that nothing listens where the call was sent.
func (c *call) unheard() {
	if c.accepted() {
		c.fail(ErrLost)
		return
	}
	c.fail(refused(ErrNoServer))
	c.transport.remove(c)
}

// notify sends a message to the apiserver, if it is known. Beats repeat what matters.
func (c *call) notify(what protocol.Kind, number uint64) {
	c.mu.Lock()
	server := c.server
	c.mu.Unlock()
	if server == "" {
		return
	}
	data := protocol.Frame{Kind: what, Number: number}.AppendTo(nil)
	// Without cancellation: the apiserver must also hear that the request's context has ended.
	ctx := context.WithoutCancel(c.request.Context())
	if err := c.transport.conn.PublishRequest(ctx, server, c.transport.subject(c.number), data); err != nil {
		c.transport.logger.Debug("could not reach the apiserver of a call", "err", err)
	}
}

// settle records that no more of the response is expected. The lock is held.
func (c *call) settle() {
	c.settled = true
	c.hold()
}

// hold counts what the call holds, or may come to hold, in the budget. The lock is held.
func (c *call) hold() {
	now := c.granted - c.read
	switch {
	case c.dropped:
		now = 0
	case c.settled:
		now = c.received - c.read
	}
	c.held = c.transport.budget.Hold(c.held, now)
}

// drop forgets what was received. The lock is held.
func (c *call) drop() {
	c.queue, c.dropped = nil, true
	c.hold()
}

func (c *call) accepted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server != ""
}

// silent reports whether no message about the call arrived for longer than patience.
func (c *call) silent(patience time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.heard) > patience
}

// isAt reports whether the apiserver that receives beats at the subject at serves the call.
func (c *call) isAt(at string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	own, _, ok := protocol.SplitAddress(c.server)
	return ok && own == at
}

// question returns the question to ask the apiserver about the call; ok is false if the apiserver
// is not known or the call is done.
func (c *call) question() (at string, q protocol.Question, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, number, ok := protocol.SplitAddress(c.server)
	return at, protocol.Question{Server: number, Call: c.number, Granted: c.granted, Sent: c.sent}, ok && !c.done
}

// learn handles the answer to a question.
func (c *call) learn(at string, r protocol.Reply) {
	if !c.isAt(at) {
		return
	}
	c.mu.Lock()
	c.heard = time.Now()
	// Messages sent before the answer to the beat arrive before it.
	missing := !r.Known || r.Sent > c.received
	c.mu.Unlock()
	if missing {
		c.fail(ErrLost)
	}
}

// Read reads the response body.
func (b body) Read(p []byte) (int, error) {
	c := b.call
	if len(p) == 0 {
		return 0, nil
	}
	for {
		c.mu.Lock()
		if len(c.queue) > 0 {
			n := copy(p, c.queue[0])
			if c.queue[0] = c.queue[0][n:]; len(c.queue[0]) == 0 {
				c.queue = c.queue[1:]
			}
			c.read += uint64(n)
			grant := c.grant()
			c.hold()
			c.mu.Unlock()
			if grant > 0 {
				c.notify(protocol.KindCredit, grant)
			}
			return n, nil
		}
		done, err, late := c.done, c.err, c.reading.Late
		if c.inEnded && !done {
			done, err = true, io.EOF
		}
		c.mu.Unlock()
		switch {
		case done && errors.Is(err, errBodyClosed):
			return 0, http.ErrBodyReadAfterClose
		case done:
			return 0, err
		case late:
			return 0, deadline.Exceeded("reading over NATS")
		}
		<-c.wake
	}
}

// grant raises the credit if it is time to, and returns the new total; 0 if it has not changed. The
// lock is held.
func (c *call) grant() uint64 {
	window := c.transport.budget.Window()
	next := c.read + window
	if c.done || c.inEnded || next <= c.granted || next-c.granted < window/2 {
		return 0
	}
	c.granted = next
	return next
}

// Close ends the call if it has not ended yet.
func (b body) Close() error {
	b.fail(errBodyClosed)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop()
	b.err = errBodyClosed
	return nil
}
