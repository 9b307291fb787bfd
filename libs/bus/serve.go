package bus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/garboard/garboard/libs/bus/subject"
)

// StreamHandler answers one request by writing to w, at the pace of the reader. When the reader
// closes the stream or is gone, ctx ends and Write fails. The returned error, nil for success,
// reaches the reader after the written bytes. The handler must not use w after it returns.
type StreamHandler func(ctx context.Context, request []byte, w io.Writer) error

// StreamServer serves streams at one subject.
type StreamServer struct {
	sub *Subscription
	// cancel ends all streams.
	cancel context.CancelFunc
	done   chan struct{}
}

// Unsubscribe accepts no more requests and ends the running streams.
func (s *StreamServer) Unsubscribe() {
	s.sub.Unsubscribe()
	s.cancel()
}

// Done is closed when the last stream has ended after Unsubscribe, the end of the context, or the
// end of the connection.
func (s *StreamServer) Done() <-chan struct{} { return s.done }

// ServeStream answers the requests of OpenStream at subject, each in its own goroutine. If queue is
// not empty, one member of that queue group answers each request. It ends with ctx or with
// Unsubscribe. It refuses more than 1,024 concurrent streams.
func (c *Conn) ServeStream(ctx context.Context, subject, queue string, handle StreamHandler) (*StreamServer, error) {
	life, cancel := context.WithCancel(ctx)
	s := &StreamServer{cancel: cancel, done: make(chan struct{})}
	var streams sync.WaitGroup
	slots := make(chan struct{}, maxStreams)
	sub, err := c.QueueSubscribe(life, subject, queue, func(m Message) {
		w := c.newStreamWriter(m)
		if w == nil {
			return
		}
		select {
		case slots <- struct{}{}:
		default:
			w.end(fmt.Errorf("too many streams: %d are being served", maxStreams))
			return
		}
		streams.Go(func() {
			defer func() { <-slots }()
			c.metrics.streams.Inc()
			defer c.metrics.streams.Dec()
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

// streamWriter is the writer's end of a stream.
type streamWriter struct {
	conn           *Conn
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

// newStreamWriter reads a request; nil if it is malformed.
func (c *Conn) newStreamWriter(m Message) *streamWriter {
	f, err := decodeFrame(m.Data)
	asker, notAsker := subject.ParseClient(m.Subject)
	if err != nil || f.kind != frameOpen || !subject.IsInbox(m.Reply) || notAsker == nil && !asker.Owns(m.Reply) {
		c.logger.Warn("refused a malformed request for a stream", "subject", m.Subject, "reply", m.Reply, "err", err)
		return nil
	}
	return &streamWriter{
		conn: c, reader: m.Reply, control: c.InboxFor(m.Reply), request: f.body,
		wake: make(chan struct{}, 1), granted: f.number, heard: time.Now(),
	}
}

func (w *streamWriter) serve(ctx context.Context, handle StreamHandler) {
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
	err = handle(ctx, w.request, streamBody(func(p []byte) (int, error) { return w.part(ctx, p) }))
	w.end(err)
	cancel(nil)
	<-kept
	<-sub.Done()
}

// receive handles the reader's frames.
func (w *streamWriter) receive(m Message) {
	if m.NoResponders() {
		w.stop(ErrStreamLost)
		return
	}
	f, err := decodeFrame(m.Data)
	if err != nil {
		w.conn.logger.Warn("ignored a malformed frame of a stream's reader", "err", err)
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
		w.stop(ErrStreamCanceled)
	case frameOpen, frameAccept, frameData, frameBeat, frameEnd:
		w.conn.logger.Warn("ignored a frame of a stream's reader that only a writer may send", "kind", f.kind)
	}
}

// stop ends the stream without sending anything: the reader no longer listens.
func (w *streamWriter) stop(err error) {
	w.mu.Lock()
	w.canceled = true
	w.mu.Unlock()
	w.cancel(err)
}

// keep signals to the reader that the writer is alive, and detects when the reader is not.
func (w *streamWriter) keep(ctx context.Context) {
	ticker := time.NewTicker(w.conn.timing.beat)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		w.mu.Lock()
		if time.Since(w.heard) > w.conn.timing.dead {
			w.mu.Unlock()
			w.stop(ErrStreamLost)
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
			w.conn.logger.Debug("could not reach the reader of a stream", "err", err)
		}
	}
}

// end notifies the reader that the stream is over.
func (w *streamWriter) end(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	if w.canceled {
		return
	}
	f := frame{kind: frameEnd, number: w.parts, body: encodeFault(err)}
	if err := w.conn.nc.Publish(w.reader, f.encode()); err != nil {
		w.conn.logger.Debug("could not send the end of a stream to its reader", "err", err)
	}
}

// streamBody is the writer that a handler gets: the function sends the beginning of p.
type streamBody func(p []byte) (int, error)

// Write sends p in parts, as the reader's credit allows.
func (b streamBody) Write(p []byte) (int, error) {
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
func (w *streamWriter) part(ctx context.Context, p []byte) (int, error) {
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
			n := int(min(uint64(len(p)), MaxChunk, w.granted-w.sent))
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
