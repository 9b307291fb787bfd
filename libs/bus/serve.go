package bus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/nats-io/nuid"
)

// StreamHandler answers one request by writing to w, at the pace of the reader. ctx ends when
// the reader closed the stream or is gone, and Write fails then. The error, nil for success,
// reaches the reader behind what was written. w is not to be used afterwards.
type StreamHandler func(ctx context.Context, request []byte, w io.Writer) error

// StreamServer serves streams at one subject.
type StreamServer struct {
	sub *Subscription
	// cancel ends all streams.
	cancel context.CancelFunc
	done   chan struct{}
}

// Unsubscribe takes no more requests and ends the streams under way.
func (s *StreamServer) Unsubscribe() {
	s.sub.Unsubscribe()
	s.cancel()
}

// Done is closed when the last stream has ended after Unsubscribe, the end of the context, or
// of the connection.
func (s *StreamServer) Done() <-chan struct{} { return s.done }

// ServeStream answers the requests of OpenStream at subject, each in its own goroutine; of a
// queue group, if not empty, one member answers. It ends with ctx or with Unsubscribe. More
// than 1,024 streams at once are refused.
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

// streamWriter is the writer's end.
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

// newStreamWriter reads a request; nil if it is none.
func (c *Conn) newStreamWriter(m Message) *streamWriter {
	f, err := decodeFrame(m.Data)
	asker, notAsker := ParseAsker(m.Subject)
	if err != nil || f.kind != frameOpen || !IsInbox(m.Reply) || notAsker == nil && !asker.Owns(m.Reply) {
		c.logger.Warn("Refused a malformed request for a stream", "subject", m.Subject, "reply", m.Reply, "err", err)
		return nil
	}
	return &streamWriter{
		conn: c, reader: m.Reply, control: inboxFor(c.inbox, m.Reply, nuid.Next()), request: f.body,
		wake: make(chan struct{}, 1), granted: f.number, heard: time.Now(),
	}
}

func (w *streamWriter) serve(ctx context.Context, handle StreamHandler) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w.cancel = cancel
	sub, err := w.conn.Subscribe(ctx, w.control, w.receive)
	if err != nil {
		w.end(fmt.Errorf("taking the reader's words: %w", err))
		return
	}
	// The reply subject makes the server tell at once when the reader is gone already.
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

// receive takes the reader's frames.
func (w *streamWriter) receive(m Message) {
	if m.NoResponders() {
		w.stop(ErrStreamLost)
		return
	}
	f, err := decodeFrame(m.Data)
	if err != nil {
		w.conn.logger.Warn("Ignored a malformed word of a stream's reader", "err", err)
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
		w.conn.logger.Warn("Ignored a word of a stream's reader that is the writer's", "kind", f.kind)
	}
}

// stop ends the stream without a word: nobody is there to hear it.
func (w *streamWriter) stop(err error) {
	w.mu.Lock()
	w.canceled = true
	w.mu.Unlock()
	w.cancel(err)
}

// keep tells the reader that the writer is there, and notices when the reader is not.
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
			w.conn.logger.Debug("Could not reach the reader of a stream", "err", err)
		}
	}
}

// end tells the reader that the stream is over.
func (w *streamWriter) end(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	if w.canceled {
		return
	}
	f := frame{kind: frameEnd, number: w.parts, body: encodeFault(err)}
	if err := w.conn.nc.Publish(w.reader, f.encode()); err != nil {
		w.conn.logger.Debug("Could not tell the reader the end of its stream", "err", err)
	}
}

// streamBody is what a handler writes to: it sends the beginning of p.
type streamBody func(p []byte) (int, error)

// Write sends p, in parts, as the reader's credit allows.
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

// part sends the beginning of p, as much as fits into one message and into the credit, after
// waiting for some credit.
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
