package serve

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/garboard/garboard/libs/bus/bushttp/internal/protocol"
)

// Hijack lets the handler take over the connection, if the request asks for an upgrade. As over HTTP, the
// handler has either called WriteHeader with http.StatusSwitchingProtocols, or it writes the head of the
// response to the connection itself. The request lasts until the connection is closed.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	switch {
	case !w.exchange.upgrade:
		return nil, nil, fmt.Errorf("the request does not ask to upgrade its connection: %w", http.ErrNotSupported)
	case w.hijacked != nil:
		return nil, nil, http.ErrHijacked
	case w.began, w.status != 0 && w.status != http.StatusSwitchingProtocols, len(w.held) > 0:
		return nil, nil, errors.New("the response has begun, so that its connection cannot be taken over")
	}
	w.exchange.mu.Lock()
	w.exchange.duplex = true
	w.exchange.mu.Unlock()
	h := &hijacked{exchange: w.exchange, writer: w, closed: make(chan struct{})}
	w.hijacked = h
	if w.status != 0 {
		if err := w.flush(nil, false); err != nil {
			return nil, nil, err
		}
	}
	return h, bufio.NewReadWriter(bufio.NewReader(h), bufio.NewWriter(h)), nil
}

var errNotHijacked = errors.New("the handler switched protocols and did not take the connection")

// hijacked is the server's end of an upgraded connection.
type hijacked struct {
	exchange *exchange
	writer   *writer
	once     sync.Once
	closed   chan struct{}

	mu   sync.Mutex
	head []byte // what the handler wrote of the head, until it is complete
}

var _ net.Conn = (*hijacked)(nil)

// Read reads what the caller sends.
func (h *hijacked) Read(p []byte) (int, error) { return incoming{h.exchange}.Read(p) }

// Write sends to the caller, and blocks while the caller does not read.
func (h *hijacked) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	rest := p
	if !h.writer.began {
		var err error
		if rest, err = h.begin(p); err != nil {
			h.exchange.abort(err)
			return 0, err
		}
	}
	if len(rest) == 0 {
		return len(p), nil
	}
	if err := h.writer.flush(rest, false); err != nil {
		return 0, err
	}
	return len(p), nil
}

// begin adds to the head of the response, and sends it once it is complete. It returns what follows it.
func (h *hijacked) begin(p []byte) ([]byte, error) {
	h.head = append(h.head, p...)
	end := []byte("\r\n\r\n")
	at := bytes.Index(h.head, end)
	switch {
	case at < 0 && len(h.head) > protocol.MaxHead:
		return nil, fmt.Errorf("the head of the response has more than %d bytes", protocol.MaxHead)
	case at < 0:
		return nil, nil
	}
	rest := h.head[at+len(end):]
	response, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(h.head[:at+len(end)])), h.exchange.request)
	if err != nil {
		return nil, fmt.Errorf("reading the head of the response: %w", err)
	}
	if slices.Contains(response.TransferEncoding, "chunked") {
		return nil, errors.New("the response of a connection that was taken over is chunked")
	}
	h.head, h.writer.status, h.writer.header = nil, response.StatusCode, response.Header
	return rest, h.writer.flush(nil, false)
}

// CloseWrite tells the caller that nothing more comes. The caller can still send.
func (h *hijacked) CloseWrite() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.writer.began {
		return errors.New("the connection was taken over, and no response written")
	}
	return h.writer.flush(nil, true)
}

// Close ends the connection. The caller receives what was written.
func (h *hijacked) Close() error {
	h.once.Do(func() {
		h.exchange.hangUp()
		close(h.closed)
	})
	return nil
}

// hangUp ends the response of a hijacked connection and then the exchange.
func (x *exchange) hangUp() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.done && x.headed && !x.ended {
		x.ended = true
		x.say(protocol.Frame{Kind: protocol.KindAnswer, Flags: protocol.FlagLast, Number: x.sent}.AppendTo(nil))
	}
	if whole := x.headed && x.body.done; !x.done && !whole {
		x.say(protocol.Frame{Kind: protocol.KindAbort}.AppendTo(nil))
	}
	x.done = true
	x.cancel(errRequestOver)
}

// wait waits for the end of the connection.
func (h *hijacked) wait() error {
	select {
	case <-h.closed:
		return nil
	case <-h.exchange.over:
	}
	select {
	case <-h.closed:
		return nil
	default:
		return h.exchange.cause()
	}
}

// LocalAddr returns the address of this end.
func (h *hijacked) LocalAddr() net.Addr { return protocol.Addr(h.exchange.address) }

// RemoteAddr returns the address of the caller.
func (h *hijacked) RemoteAddr() net.Addr { return protocol.Addr(h.exchange.request.RemoteAddr) }

// SetDeadline sets both deadlines.
func (h *hijacked) SetDeadline(at time.Time) error {
	return errors.Join(h.SetReadDeadline(at), h.SetWriteDeadline(at))
}

// SetReadDeadline makes Read fail after at; zero means never.
func (h *hijacked) SetReadDeadline(at time.Time) error { return h.writer.SetReadDeadline(at) }

// SetWriteDeadline makes Write fail after at; zero means never.
func (h *hijacked) SetWriteDeadline(at time.Time) error { return h.writer.SetWriteDeadline(at) }
