package bytestream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/subject"
)

// Handler answers one request by writing to w, at the pace of the reader. When the reader
// closes the stream or is gone, ctx ends and Write fails. The returned error, nil for success,
// reaches the reader after the written bytes. The handler must not use w after it returns.
type Handler func(ctx context.Context, request []byte, w io.Writer) error

// Server serves streams at one subject.
type Server struct {
	sub *bus.Subscription
	// cancel ends all streams.
	cancel context.CancelFunc
	done   chan struct{}
}

// Unsubscribe accepts no more requests and ends the running streams.
func (s *Server) Unsubscribe() {
	s.sub.Unsubscribe()
	s.cancel()
}

// Done is closed when the last stream has ended after Unsubscribe, the end of the context, or the
// end of the connection.
func (s *Server) Done() <-chan struct{} { return s.done }

// Serve answers the requests of Open at subject, each in its own goroutine. If queue is not empty,
// one member of that queue group answers each request. It ends with ctx or with Unsubscribe. It
// refuses more than 1,024 concurrent streams.
func (t Transport) Serve(ctx context.Context, subject, queue string, handle Handler) (*Server, error) {
	life, cancel := context.WithCancel(ctx)
	s := &Server{cancel: cancel, done: make(chan struct{})}
	var streams sync.WaitGroup
	slots := make(chan struct{}, maxServed)
	sub, err := t.Conn.QueueSubscribe(life, subject, queue, func(m bus.Message) {
		w := t.newWriter(m)
		if w == nil {
			return
		}
		select {
		case slots <- struct{}{}:
		default:
			w.end(fmt.Errorf("too many streams: %d are being served", maxServed))
			return
		}
		streams.Go(func() {
			defer func() { <-slots }()
			defer t.Conn.CountStream()()
			w.serve(life, handle)
		})
	})
	if err != nil {
		cancel()
		return nil, err
	}
	s.sub = sub
	go func() {
		defer close(s.done)
		<-sub.Done()
		cancel()
		streams.Wait()
	}()
	return s, nil
}

// writer is the writer's end of a stream.
type writer struct {
	conn           *bus.Conn
	timing         timing
	reader         string
	control        string
	request        []byte
	cancel         context.CancelCauseFunc
	wake           chan struct{}
	mu             sync.Mutex
	sent, parts    uint64
	granted        uint64
	heard          time.Time
	canceled, over bool
}

// newWriter reads a request; nil if it is malformed.
func (t Transport) newWriter(m bus.Message) *writer {
	f, err := decodeFrame(m.Data)
	asker, notAsker := subject.ParseClient(m.Subject)
	if err != nil || f.kind != frameOpen || !subject.IsInbox(m.Reply) || notAsker == nil && !asker.Owns(m.Reply) {
		t.Conn.Logger().Warn("refused a malformed request for a stream", "subject", m.Subject, "reply", m.Reply, "err", err)
		return nil
	}
	return &writer{
		conn: t.Conn, timing: t.ends(), reader: m.Reply, control: t.Conn.InboxFor(m.Reply), request: f.body,
		wake: make(chan struct{}, 1), granted: f.number, heard: time.Now(),
	}
}

func (w *writer) serve(ctx context.Context, handle Handler) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w.cancel = cancel
	sub, err := w.conn.Subscribe(ctx, w.control, w.receive)
	if err != nil {
		w.end(fmt.Errorf("subscribing to the reader's frames: %w", err))
		return
	}
	// With the reply subject, the server reports at once if the reader is already gone.
	if err := w.conn.PublishRequest(ctx, w.reader, w.control, frame{kind: frameAccept}.encode()); err != nil {
		cancel(err)
		<-sub.Done()
		return
	}
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		w.keep(ctx)
	}()
	err = handle(ctx, w.request, body(func(p []byte) (int, error) { return w.part(ctx, p) }))
	w.end(err)
	cancel(nil)
	<-kept
	<-sub.Done()
}

// receive handles the reader's frames.
func (w *writer) receive(m bus.Message) {
	if m.NoResponders() {
		w.stop(ErrLost)
		return
	}
	f, err := decodeFrame(m.Data)
	if err != nil {
		w.conn.Logger().Warn("ignored a malformed frame of a stream's reader", "err", err)
		return
	}
	switch f.kind {
	case frameCredit:
		w.mu.Lock()
		w.heard = time.Now()
		w.granted = max(w.granted, f.number)
		w.mu.Unlock()
		select {
		case w.wake <- struct{}{}:
		default:
		}
	case frameCancel:
		w.stop(ErrCanceled)
	case frameOpen, frameAccept, frameData, frameBeat, frameEnd:
		w.conn.Logger().Warn("ignored a frame of a stream's reader that only a writer may send", "kind", f.kind)
	}
}

// stop ends the stream without sending anything: the reader no longer listens.
func (w *writer) stop(err error) {
	w.mu.Lock()
	w.canceled = true
	w.mu.Unlock()
	w.cancel(err)
}

// keep signals to the reader that the writer is alive, and detects when the reader is not.
func (w *writer) keep(ctx context.Context) {
	ticker := time.NewTicker(w.timing.beat)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		w.mu.Lock()
		if time.Since(w.heard) > w.timing.dead {
			w.mu.Unlock()
			w.stop(ErrLost)
			return
		}
		if w.over {
			w.mu.Unlock()
			return
		}
		// Under the lock, so that no part overtakes the number that the beat carries.
		err := w.conn.PublishRequest(ctx, w.reader, w.control, frame{kind: frameBeat, number: w.parts}.encode())
		w.mu.Unlock()
		if err != nil {
			w.conn.Logger().Debug("could not reach the reader of a stream", "err", err)
		}
	}
}

// end notifies the reader that the stream is over.
func (w *writer) end(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	if w.canceled {
		return
	}
	f := frame{kind: frameEnd, number: w.parts, body: encodeFault(err)}
	if err := w.conn.Publish(context.Background(), w.reader, f.encode()); err != nil {
		w.conn.Logger().Debug("could not send the end of a stream to its reader", "err", err)
	}
}

// body is the writer that a handler gets: the function sends the beginning of p.
type body func(p []byte) (int, error)

// Write sends p in parts, as the reader's credit allows.
func (b body) Write(p []byte) (int, error) {
	written := 0
	for written < len(p) {
		n, err := b(p[written:])
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// part waits for credit, then sends the beginning of p: as much as fits into one message and into
// the credit.
func (w *writer) part(ctx context.Context, p []byte) (int, error) {
	for {
		if ctx.Err() != nil {
			return 0, fmt.Errorf("writing to a stream: %w", context.Cause(ctx))
		}
		w.mu.Lock()
		if w.over {
			w.mu.Unlock()
			return 0, errors.New("writing to a stream: its handler has returned")
		}
		if w.granted > w.sent {
			n := int(min(uint64(len(p)), MaxPart, w.granted-w.sent))
			err := w.conn.Publish(ctx, w.reader, frame{kind: frameData, number: w.parts, body: p[:n]}.encode())
			if err == nil {
				w.parts++
				w.sent += uint64(n)
			}
			w.mu.Unlock()
			if err != nil {
				w.cancel(err)
				return 0, err
			}
			return n, nil
		}
		w.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-w.wake:
		}
	}
}
