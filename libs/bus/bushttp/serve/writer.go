package serve

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/garboard/garboard/libs/bus/bushttp/internal/protocol"
)

// writer is the http.ResponseWriter of a request. It buffers writes until they fill a message or
// Flush is called, so that a small response is one message.
//
// http.ResponseController finds Flush, the deadlines, and Hijack.
type writer struct {
	exchange *exchange
	hijacked *hijacked // nil unless the handler has taken the connection
	header   http.Header
	status   int
	length   int64 // as the header says; -1 if it does not
	written  int64 // by the handler
	began    bool  // the head was sent
	held     []byte
	buffer   *[]byte // nil when nothing is buffered
	unsent   string  // content type of a body that is not sent because the method is HEAD
}

func newWriter(x *exchange) *writer { return &writer{exchange: x, header: http.Header{}, length: -1} }

// Header returns the response header, which may be changed until WriteHeader.
func (w *writer) Header() http.Header { return w.header }

// WriteHeader fixes the status and the header. Of the informational statuses it only heeds that of an
// upgrade, after which the handler must hijack the connection.
func (w *writer) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %v", status))
	}
	if w.status != 0 || w.hijacked != nil || status < http.StatusOK && (status != http.StatusSwitchingProtocols || !w.exchange.upgrade) {
		return
	}
	w.status = status
	w.header = w.header.Clone()
	if w.header == nil {
		w.header = http.Header{}
	}
	if value := w.header.Get("Content-Length"); value != "" {
		length, err := strconv.ParseInt(value, 10, 64)
		if err == nil && length >= 0 {
			w.length = length
		} else {
			w.header.Del("Content-Length")
		}
	}
}

// Write adds to the response body, and blocks while the caller does not read.
func (w *writer) Write(p []byte) (int, error) {
	if w.status == 0 && w.hijacked == nil {
		w.WriteHeader(http.StatusOK)
	}
	switch {
	case w.hijacked != nil:
		return 0, http.ErrHijacked
	case w.status == http.StatusNoContent, w.status == http.StatusNotModified, w.status == http.StatusSwitchingProtocols:
		return 0, http.ErrBodyNotAllowed
	}
	w.written += int64(len(p))
	if w.length >= 0 && w.written > w.length {
		return 0, http.ErrContentLength
	}
	if !w.exchange.hasBody(w.status) {
		if w.written == int64(len(p)) {
			w.unsent = http.DetectContentType(p)
		}
		return len(p), nil
	}
	if len(w.held)+len(p) <= w.room() {
		w.hold(p)
		return len(p), nil
	}
	if err := w.flush(w.held, false); err != nil {
		return 0, err
	}
	w.release()
	if err := w.flush(p, false); err != nil {
		return 0, err
	}
	return len(p), nil
}

// room returns how many bytes are buffered at most.
func (w *writer) room() int {
	if w.began {
		return protocol.MaxBody
	}
	return protocol.MaxFrame - protocol.MaxHead
}

func (w *writer) hold(p []byte) {
	if w.buffer == nil {
		w.buffer = w.exchange.server.buffers.Get()
		w.held = (*w.buffer)[:0]
	}
	w.held = append(w.held, p...)
}

// release returns the buffer to the pool.
func (w *writer) release() {
	if w.buffer != nil {
		*w.buffer = w.held
		w.exchange.server.buffers.Put(w.buffer)
		w.buffer, w.held = nil, nil
	}
}

// flush sends body, preceded by the head if that was not sent yet; last ends the response.
func (w *writer) flush(body []byte, last bool) error {
	message := w.exchange.server.buffers.Get()
	defer w.exchange.server.buffers.Put(message)
	for {
		f := protocol.Frame{Kind: protocol.KindAnswer}
		if !w.began {
			head, err := w.encodeHead(body, last)
			if err != nil {
				return err
			}
			f.Flags |= protocol.FlagFirst
			f.Head = head
		}
		f.Body = body[:min(len(body), protocol.MaxFrame-f.Overhead())]
		if last && len(f.Body) == len(body) {
			f.Flags |= protocol.FlagLast
		}
		n, err := w.exchange.send(f, message)
		if err != nil {
			return err
		}
		w.began = true
		if body = body[n:]; len(body) == 0 {
			return nil
		}
	}
}

// encodeHead encodes the head of a response that begins with body, and ends with it if last.
func (w *writer) encodeHead(body []byte, last bool) ([]byte, error) {
	header := w.header
	if header.Get("Date") == "" {
		header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	}
	mayHave := protocol.HasBody("", w.status)
	if _, set := header["Content-Type"]; !set && mayHave && w.written > 0 && header.Get("Content-Encoding") == "" {
		if w.unsent == "" {
			w.unsent = http.DetectContentType(body)
		}
		header.Set("Content-Type", w.unsent)
	}
	if last && w.length < 0 && mayHave && (w.written > 0 || w.exchange.hasBody(w.status)) {
		header.Set("Content-Length", strconv.FormatInt(w.written, 10))
	}
	return protocol.EncodeAnswer(w.status, header)
}

// Flush sends buffered data.
func (w *writer) Flush() { _ = w.FlushError() }

// FlushError sends buffered data.
func (w *writer) FlushError() error {
	if w.hijacked != nil {
		return http.ErrHijacked
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.began && len(w.held) == 0 {
		return nil
	}
	err := w.flush(w.held, false)
	w.release()
	return err
}

// SetWriteDeadline makes writes fail after at; zero means never.
func (w *writer) SetWriteDeadline(at time.Time) error {
	w.exchange.writing.Set(&w.exchange.mu, at, w.exchange.wake)
	return nil
}

// SetReadDeadline makes reads of the request body fail after at; zero means never.
func (w *writer) SetReadDeadline(at time.Time) error {
	w.exchange.reading.Set(&w.exchange.mu, at, w.exchange.body.wake)
	return nil
}

// finish ends the response after the handler has returned.
func (w *writer) finish() error {
	if w.hijacked != nil {
		return w.hijacked.wait()
	}
	if w.status == http.StatusSwitchingProtocols {
		return errNotHijacked
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	defer w.release()
	if w.exchange.hasBody(w.status) && w.length >= 0 && w.written != w.length {
		return fmt.Errorf("%w: %d of %d bytes were written", http.ErrContentLength, w.written, w.length)
	}
	return w.flush(w.held, true)
}

func (x *exchange) hasBody(status int) bool { return protocol.HasBody(x.request.Method, status) }
