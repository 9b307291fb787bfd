package bushttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/garboard/garboard/libs/bus/bushttp/internal/protocol"
)

// readAll reads and closes a request body of a known length.
func readAll(r *http.Request, length int64) ([]byte, error) {
	if length == 0 {
		if r.Body != nil {
			return nil, r.Body.Close()
		}
		return nil, nil
	}
	// One byte more reveals a body that is longer than announced.
	data := make([]byte, length+1)
	n, err := io.ReadFull(r.Body, data)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, errors.Join(fmt.Errorf("reading the request's body: %w", err), r.Body.Close())
	}
	if int64(n) != length {
		return nil, errors.Join(wrongLength(length, uint64(n)), r.Body.Close())
	}
	return data[:n], r.Body.Close()
}

func wrongLength(length int64, got uint64) error {
	return fmt.Errorf("http: ContentLength=%d with Body length %d", length, got)
}

// upload sends the request body, part by part, as the apiserver grants credit. It ends with the
// body or with the call.
func (c *call) upload() {
	var once sync.Once
	shut := func() { once.Do(func() { _ = c.request.Body.Close() }) }
	defer shut()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		// Unblocks a Read of a body that is no longer needed.
		select {
		case <-c.over:
			shut()
		case <-ended:
		}
	}()
	part, message := c.transport.buffers.Get(), c.transport.buffers.Get()
	defer c.transport.buffers.Put(part)
	defer c.transport.buffers.Put(message)
	for {
		room, ok := c.room()
		if !ok {
			return
		}
		*part = protocol.Grown(*part, room)
		n, err := c.request.Body.Read(*part)
		end := errors.Is(err, io.EOF)
		if err != nil && !end {
			c.fail(fmt.Errorf("reading the request's body: %w", err))
			return
		}
		if n == 0 && !end {
			continue
		}
		c.mu.Lock()
		f := protocol.Frame{Kind: protocol.KindRequest, Number: c.sent, Body: (*part)[:n]}
		total := c.sent + uint64(n)
		c.mu.Unlock()
		if c.length >= 0 && (total > uint64(c.length) || end && total != uint64(c.length)) {
			c.fail(wrongLength(c.length, total))
			return
		}
		if end {
			f.Flags = protocol.FlagLast
		}
		*message = f.AppendTo((*message)[:0])
		if !c.sendPart(*message, total) || end {
			return
		}
	}
}

// room waits for credit and returns how many bytes may be sent now; ok is false when the call is
// over.
func (c *call) room() (int, bool) {
	for {
		c.mu.Lock()
		left := c.allowed - c.sent
		c.mu.Unlock()
		if left > 0 {
			return int(min(left, protocol.MaxBody)), true
		}
		select {
		case <-c.over:
			return 0, false
		case <-c.credited:
		}
	}
}

// sendPart sends an encoded part, after which total bytes are sent.
func (c *call) sendPart(message []byte, total uint64) bool {
	c.mu.Lock()
	if c.done {
		c.mu.Unlock()
		return false
	}
	// Under the lock, so that no beat counts a part that is sent after it.
	err := c.transport.conn.PublishRequest(context.WithoutCancel(c.request.Context()), c.server, c.transport.subject(c.number), message)
	if err == nil {
		c.sent = total
	}
	c.mu.Unlock()
	if err != nil {
		c.fail(fmt.Errorf("%w: %w", ErrLost, err))
		return false
	}
	return true
}
