package bushttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/garboard/garboard/libs/bus/bushttp/internal/deadline"
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
	for total := uint64(0); ; {
		room, err := c.room()
		if err != nil {
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
		f := protocol.Frame{Kind: protocol.KindRequest, Body: (*part)[:n]}
		total += uint64(n)
		if c.length >= 0 && (total > uint64(c.length) || end && total != uint64(c.length)) {
			c.fail(wrongLength(c.length, total))
			return
		}
		if end {
			f.Flags = protocol.FlagLast
		}
		if !c.say(message, f) || end {
			return
		}
	}
}

// room waits for credit, and returns how many bytes may be sent now.
func (c *call) room() (int, error) {
	for {
		c.mu.Lock()
		left, over, late := c.allowed-min(c.sent, c.allowed), c.done || c.outEnded, c.writing.Late
		c.mu.Unlock()
		switch {
		case over:
			return 0, fmt.Errorf("writing over NATS: %w", net.ErrClosed)
		case late:
			return 0, deadline.Exceeded("writing over NATS")
		case left > 0:
			return int(min(left, protocol.MaxBody)), nil
		}
		select {
		case <-c.over:
		case <-c.credited:
		}
	}
}

// say sends the next part; false if nothing more may be sent. It does so under the lock, so that no beat
// counts a part that is sent after it.
func (c *call) say(message *[]byte, f protocol.Frame) bool {
	c.mu.Lock()
	if c.done || c.outEnded {
		c.mu.Unlock()
		return false
	}
	f.Number = c.sent
	*message = f.AppendTo((*message)[:0])
	err := c.transport.conn.PublishRequest(context.WithoutCancel(c.request.Context()), c.server, c.transport.subject(c.number), *message)
	if err == nil {
		c.sent += uint64(len(f.Body))
		c.outEnded = f.Last()
	}
	c.mu.Unlock()
	if err != nil {
		c.fail(fmt.Errorf("%w: %w", ErrLost, err))
		return false
	}
	return true
}
