package bytestream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/garboard/garboard/libs/bus"
)

// Errors of a stream.
var (
	// ErrLost means that the other end of a stream has been silent for 20 s.
	ErrLost = errors.New("the other end of the stream is gone")
	// ErrBroken means that a part of a stream was lost in transit, or that the writer sent
	// more than the reader allowed.
	ErrBroken = errors.New("a part of the stream was lost")
	// ErrCanceled means that the reader wants no more.
	ErrCanceled = errors.New("the reader closed the stream")
)

// Open sends a request to a Server at subject and returns the answer for reading: exactly the bytes
// that the handler wrote, then io.EOF if it returned nil, otherwise a *RemoteError. A lost part or a
// vanished end is an error of the stream (ErrBroken, ErrLost), never a silent gap.
//
// It returns when the other end has accepted. It returns bus.ErrNoResponders, at once, if there is
// no server at subject, and bus.ErrForbidden if this client may not publish at subject. The stream
// ends with ctx; the caller must close it. A request may have at most MaxPart bytes.
func (t Transport) Open(ctx context.Context, subject string, request []byte) (io.ReadCloser, error) {
	if len(request) > MaxPart {
		return nil, fmt.Errorf("opening a stream at %s: %w", subject, bus.ErrTooLarge)
	}
	life, cancel := context.WithCancelCause(ctx)
	r := &reader{
		conn: t.Conn, timing: t.ends(), subject: subject, cancel: cancel, over: life.Done(), cause: func() error { return context.Cause(life) },
		wake: make(chan struct{}, 1), accepted: make(chan struct{}), done: make(chan struct{}),
		heard: time.Now(),
	}
	inbox := t.Conn.InboxFor(subject)
	sub, err := t.Conn.Subscribe(life, inbox, r.receive, bus.OnLoss(func(err error) { r.fail(fmt.Errorf("%w: %w", ErrBroken, err)) }))
	if err != nil {
		cancel(err)
		return nil, fmt.Errorf("opening a stream at %s: %w", subject, err)
	}
	r.sub = sub
	defer t.Conn.OnForbidden(subject, r.fail)() // No responder will ever see the request.
	open := frame{kind: frameOpen, number: window, body: request}
	if err := t.Conn.PublishRequest(ctx, subject, inbox, open.encode()); err != nil {
		cancel(err)
		<-sub.Done()
		return nil, fmt.Errorf("opening a stream at %s: %w", subject, err)
	}
	go r.keep()
	select {
	case <-r.accepted:
		return r, nil
	case <-r.done:
		// The acceptance may have come just before an early end.
		select {
		case <-r.accepted:
			return r, nil
		default:
		}
		return nil, fmt.Errorf("opening a stream at %s: %w", subject, r.cause())
	}
}

// reader is the reader's end of a stream.
type reader struct {
	conn    *bus.Conn
	timing  timing
	subject string
	sub     *bus.Subscription
	// cancel closes over; after that, cause returns the reason.
	cancel context.CancelCauseFunc
	over   <-chan struct{}
	cause  func() error
	// wake notifies Read of a change.
	wake chan struct{}
	// accepted is closed when control is known, done when keep has ended.
	accepted, done chan struct{}

	mu      sync.Mutex
	control string
	queue   [][]byte
	parts   uint64
	// Bytes: received, read, and allowed to be sent.
	received, read, granted uint64
	heard                   time.Time
	ended                   bool
	err                     error
}

// receive handles the writer's frames.
func (r *reader) receive(m bus.Message) {
	if m.NoResponders() {
		r.fail(bus.ErrNoResponders)
		return
	}
	f, err := decodeFrame(m.Data)
	if err != nil {
		r.fail(err)
		return
	}
	r.mu.Lock()
	r.heard = time.Now()
	if r.ended {
		r.mu.Unlock()
		return
	}
	switch f.kind {
	case frameAccept:
		if r.control == "" && r.conn.MayAnswer(m.Reply) {
			r.control, r.granted = m.Reply, window
			close(r.accepted)
		}
	case frameData:
		if f.number != r.parts || uint64(len(f.body)) > r.granted-r.received {
			err = ErrBroken
			break
		}
		r.parts++
		r.received += uint64(len(f.body))
		if len(f.body) > 0 {
			r.queue = append(r.queue, f.body)
		}
	case frameBeat:
		if f.number != r.parts {
			err = ErrBroken
		}
	case frameEnd:
		if f.number != r.parts {
			err = ErrBroken
			break
		}
		r.ended = true
		if r.err = decodeFault(f.body); r.err == nil {
			r.err = io.EOF
		}
		if r.control == "" {
			// Refused before it was accepted.
			err = r.err
		}
	case frameOpen, frameCredit, frameCancel:
		err = fmt.Errorf("%w: received a frame that only a reader may send", ErrBroken)
	}
	r.mu.Unlock()
	if err != nil {
		r.fail(err)
	}
	r.notify()
}

func (r *reader) notify() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *reader) fail(err error) {
	r.cancel(err)
	r.notify()
}

// keep signals to the writer that the reader is alive, and detects when the writer is not. It ends
// with the stream, and notifies the writer of the end.
func (r *reader) keep() {
	defer close(r.done)
	defer r.notify()
	ticker := time.NewTicker(r.timing.beat)
	defer ticker.Stop()
	for {
		select {
		case <-r.over:
			r.sub.Unsubscribe()
			r.send(frameCancel)
			return
		case <-r.sub.Done():
			r.cancel(bus.ErrDisconnected)
		case <-ticker.C:
			r.mu.Lock()
			silent := time.Since(r.heard) > r.timing.dead && !r.ended
			r.mu.Unlock()
			if silent {
				r.cancel(ErrLost)
				continue
			}
			r.send(frameCredit)
		}
	}
}

// send sends a frame to the writer. If it does not arrive, the next beat repeats it.
func (r *reader) send(kind frameKind) {
	r.mu.Lock()
	control, ended := r.control, r.ended
	f := frame{kind: kind, number: r.granted}
	r.mu.Unlock()
	if control == "" || ended {
		return
	}
	// Without a context: the writer must also hear that the stream is over.
	if err := r.conn.Publish(context.Background(), control, f.encode()); err != nil {
		r.conn.Logger().Debug("could not reach the writer of a stream", "subject", r.subject, "err", err)
	}
}

// Read reads the stream.
func (r *reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		r.mu.Lock()
		if len(r.queue) > 0 {
			n := copy(p, r.queue[0])
			if r.queue[0] = r.queue[0][n:]; len(r.queue[0]) == 0 {
				r.queue = r.queue[1:]
			}
			r.read += uint64(n)
			grant := r.read+window-r.granted >= window/2
			if grant {
				r.granted = r.read + window
			}
			r.mu.Unlock()
			if grant {
				r.send(frameCredit)
			}
			return n, nil
		}
		ended, err := r.ended, r.err
		r.mu.Unlock()
		if ended {
			return 0, err
		}
		if r.cause() != nil {
			return 0, fmt.Errorf("reading the stream of %s: %w", r.subject, r.cause())
		}
		select {
		case <-r.wake:
		case <-r.over:
		}
	}
}

// Close ends the stream and notifies the writer.
func (r *reader) Close() error {
	r.cancel(ErrCanceled)
	<-r.done
	<-r.sub.Done()
	return nil
}
