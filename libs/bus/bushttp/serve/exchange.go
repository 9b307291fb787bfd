package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/garboard/garboard/libs/bus/bushttp"
	"github.com/garboard/garboard/libs/bus/bushttp/internal/deadline"
	"github.com/garboard/garboard/libs/bus/bushttp/internal/protocol"
)

// exchange is a request in flight at the server.
type exchange struct {
	server *Server
	// user is the calling user, caller the caller's inbox, and address the subject at which the
	// caller sends messages about this request.
	user, caller, address string
	// few means that the user is one of those that get only few places.
	few     bool
	request *http.Request
	// upgrade means that the request asks to switch its connection to another protocol.
	upgrade bool
	over    <-chan struct{} // closed by cancel
	cause   func() error
	cancel  context.CancelCauseFunc
	accept  *time.Timer
	// wake notifies the writer of the response of more credit.
	wake chan struct{}

	mu            sync.Mutex
	sent, granted uint64 // bytes of the response body
	heard         time.Time
	told          bool // the caller knows the address
	done          bool // no more messages go to the caller
	headed        bool // the head of the response was sent
	// duplex means that the handler has hijacked the connection: the request goes on after the end of the
	// response, which ended tells.
	duplex, ended bool
	// reading is the deadline for reading the request body, writing that for writing the response.
	reading, writing deadline.Deadline
	body             requestBody
}

// requestBody is the received part of a request body.
type requestBody struct {
	wake                    chan struct{}
	length                  int64 // as the header says; -1 if it does not
	queue                   [][]byte
	received, read, granted uint64
	held                    uint64 // in the server's budget
	done                    bool
	err                     error // after the queue, once done
}

// begin handles the first part of the request.
func (x *exchange) begin(ctx context.Context, request *http.Request, f protocol.Frame) {
	x.body.length = request.ContentLength
	if x.upgrade {
		x.body.length = -1 // of what is sent once the connection is upgraded
	}
	if err := x.takeBody(f); err != nil {
		x.body.done, x.body.err = true, err
	}
	if !x.upgrade && (request.Method == http.MethodGet || request.Method == http.MethodHead) {
		// A body has no meaning here, and no handler would read it while a watch lasts.
		x.body = requestBody{wake: x.body.wake, held: x.body.held, done: true, err: io.EOF}
	}
	x.hold()
	switch {
	case x.upgrade:
		request.Body, request.ContentLength = http.NoBody, 0
	case x.body.done && x.body.received == 0 && errors.Is(x.body.err, io.EOF):
		request.Body, request.ContentLength = http.NoBody, 0
	default:
		request.Body = incoming{x}
		if x.body.done && errors.Is(x.body.err, io.EOF) {
			request.ContentLength = int64(x.body.received)
		}
	}
	x.request = request.WithContext(ctx)
	if f.Last() {
		x.accept = time.AfterFunc(acceptAfter, x.introduce)
		return
	}
	x.introduce()
}

// introduce sends the caller the address of its request, and the credit for its body.
func (x *exchange) introduce() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.told && !x.done {
		x.say(protocol.Frame{Kind: protocol.KindCredit, Number: x.body.granted}.AppendTo(nil))
	}
}

// say sends a message to the caller. The lock is held, so that messages stay in order.
func (x *exchange) say(message []byte) {
	x.told = true
	// Not with the request's context: the caller must also hear that it has ended.
	if err := x.server.Conn.PublishRequest(context.Background(), x.caller, x.address, message); err != nil {
		x.server.Logger.Debug("could not reach a caller over NATS", "err", err)
		x.done = true
		x.cancel(fmt.Errorf("%w: %w", bushttp.ErrLost, err))
	}
}

// serve runs the handler and ends the exchange.
func (x *exchange) serve() {
	defer x.server.forget(x)
	defer x.cancel(errRequestOver)
	w := newWriter(x)
	answered := false
	if x.handle(w) {
		if err := w.finish(); err != nil {
			x.abort(err)
		} else {
			answered = true
		}
	}
	x.server.metrics.requests.WithLabelValues(x.outcome(answered)).Inc()
	if x.accept != nil {
		x.accept.Stop()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.done = true
	x.reading.Stop()
	x.writing.Stop()
	x.endBody(http.ErrBodyReadAfterClose)
}

// outcome returns the outcome of the request for the metrics.
func (x *exchange) outcome(answered bool) string {
	switch cause := x.cause(); {
	case answered:
		return "answered"
	case errors.Is(cause, context.Canceled), errors.Is(cause, bushttp.ErrLost):
		return "abandoned"
	}
	return "cut"
}

// handle calls the handler and reports whether it returned without a panic.
func (x *exchange) handle(w *writer) (ok bool) {
	defer func() {
		problem := recover()
		if problem == nil {
			return
		}
		ok = false
		if err, isError := problem.(error); !isError || !errors.Is(err, http.ErrAbortHandler) {
			x.server.Logger.Error("a handler panicked", "method", x.request.Method, "path", x.request.URL.Path,
				"panic", fmt.Sprint(problem), "stack", string(debug.Stack()))
		}
		x.abort(http.ErrAbortHandler)
	}()
	x.server.Handler.ServeHTTP(w, x.request)
	return true
}

// receive handles a message of the caller.
func (x *exchange) receive(f protocol.Frame) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.heard = time.Now()
	switch f.Kind {
	case protocol.KindCredit:
		x.grant(f.Number)
		return nil
	case protocol.KindAbort:
		x.done = true
		x.cancel(context.Canceled)
		return nil
	case protocol.KindRequest:
		if f.First() {
			return fmt.Errorf("%w: a second head", protocol.ErrMalformed)
		}
		return x.takeBody(f)
	}
	return fmt.Errorf("%w: kind %d", protocol.ErrMalformed, f.Kind)
}

// grant records credit from the caller. The lock is held.
func (x *exchange) grant(number uint64) {
	if number > x.granted {
		x.granted = number
		deadline.Signal(x.wake)
	}
}

// learn applies the news in a question and returns how much of the response was sent.
func (x *exchange) learn(q protocol.Question) (sent uint64, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.heard = time.Now()
	x.grant(q.Granted)
	if q.Sent > x.body.received && !x.body.done {
		return 0, fmt.Errorf("%w: a part of the request is missing", bushttp.ErrLost)
	}
	return x.sent, nil
}

// takeBody adds a part of the request body. The lock is held.
func (x *exchange) takeBody(f protocol.Frame) error {
	b := &x.body
	n := uint64(len(f.Body))
	switch {
	case b.done:
		return nil
	case f.Number != b.received:
		return fmt.Errorf("%w: a part of the request is missing", bushttp.ErrLost)
	case n > b.granted-b.received:
		return fmt.Errorf("%w: more than the granted credit", protocol.ErrMalformed)
	case b.length >= 0 && b.received+n > uint64(b.length):
		return fmt.Errorf("%w: more than the header says", protocol.ErrMalformed)
	}
	if n > 0 {
		b.queue = append(b.queue, f.Body)
		b.received += n
		x.server.metrics.received.Add(float64(n))
	}
	if f.Last() {
		b.done, b.err = true, io.EOF
		if b.length >= 0 && b.received != uint64(b.length) {
			b.err = io.ErrUnexpectedEOF
		}
	}
	x.hold()
	deadline.Signal(b.wake)
	return nil
}

// hold counts what the body holds, or may come to hold, in the server's budget. The lock is held.
func (x *exchange) hold() {
	b := &x.body
	now := b.granted - b.read
	switch {
	case b.done && len(b.queue) == 0:
		now = 0
	case b.done:
		now = b.received - b.read
	}
	b.held = x.server.Budget.Hold(b.held, now)
}

// endBody ends the reading of the request body. The lock is held.
func (x *exchange) endBody(err error) {
	x.body.queue, x.body.done, x.body.err = nil, true, err
	x.hold()
	deadline.Signal(x.body.wake)
}

// silent reports whether a caller that knows the address has been silent for longer than patience.
func (x *exchange) silent(patience time.Duration) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.told && time.Since(x.heard) > patience
}

// stop ends the request without sending anything: the caller no longer listens.
func (x *exchange) stop(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.done = true
	x.cancel(err)
}

// abort ends the request and notifies the caller.
func (x *exchange) abort(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.done {
		x.say(protocol.Frame{Kind: protocol.KindAbort}.AppendTo(nil))
		x.done = true
	}
	x.cancel(fmt.Errorf("%w: %w", bushttp.ErrAborted, err))
}

// send waits for credit, then sends a part of the response, with as much of its body as the credit
// allows. It returns how much of the body it sent.
func (x *exchange) send(f protocol.Frame, buffer *[]byte) (int, error) {
	body := f.Body
	for {
		x.mu.Lock()
		switch {
		case x.cause() != nil:
			x.mu.Unlock()
			return 0, fmt.Errorf("answering over NATS: %w", x.cause())
		case x.done, x.ended:
			x.mu.Unlock()
			return 0, fmt.Errorf("answering over NATS: %w", errRequestOver)
		case x.writing.Late:
			x.mu.Unlock()
			return 0, deadline.Exceeded("answering over NATS")
		}
		if left := x.granted - min(x.sent, x.granted); left > 0 || len(body) == 0 {
			f.Number = x.sent
			n := int(min(uint64(len(body)), left))
			if f.Body = body[:n]; n < len(body) {
				f.Flags &^= protocol.FlagLast
			}
			*buffer = f.AppendTo((*buffer)[:0])
			x.say(*buffer)
			x.sent += uint64(n)
			x.server.metrics.sent.Add(float64(n))
			x.headed = true
			x.ended = x.ended || f.Last()
			x.done = x.done || x.ended && !x.duplex
			x.mu.Unlock()
			return n, nil
		}
		x.mu.Unlock()
		select {
		case <-x.over:
		case <-x.wake:
		}
	}
}

// incoming is the request body for the handler.
type incoming struct{ *exchange }

// Read reads the body as it arrives.
func (r incoming) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	b := &r.body
	for {
		r.mu.Lock()
		if len(b.queue) > 0 {
			n := copy(p, b.queue[0])
			if b.queue[0] = b.queue[0][n:]; len(b.queue[0]) == 0 {
				b.queue = b.queue[1:]
			}
			b.read += uint64(n)
			r.hold()
			r.want()
			r.mu.Unlock()
			return n, nil
		}
		r.want()
		done, err, late := b.done, b.err, r.reading.Late
		r.mu.Unlock()
		switch {
		case done:
			return 0, err
		case late:
			return 0, deadline.Exceeded("reading the request over NATS")
		case r.cause() != nil:
			return 0, fmt.Errorf("reading the request over NATS: %w", r.cause())
		}
		select {
		case <-r.over:
		case <-b.wake:
		}
	}
}

// want grants credit for more of the body if it is time to: the caller gets none before the handler
// reads. The lock is held.
func (r incoming) want() {
	b := &r.body
	window := r.server.Budget.Window()
	if next := b.read + window; !b.done && !r.done && next > b.granted && next-b.granted >= window/2 {
		b.granted = next
		r.hold()
		r.say(protocol.Frame{Kind: protocol.KindCredit, Number: next}.AppendTo(nil))
	}
}

// Close ends the reading.
func (r incoming) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endBody(http.ErrBodyReadAfterClose)
	return nil
}
