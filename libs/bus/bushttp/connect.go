package bushttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// maxRefusal is how much of a refusal is read, in bytes.
const maxRefusal = 64 << 10

// RefusedError is a server's refusal of a connection.
type RefusedError struct {
	// Status is the status of the answer, as "403 Forbidden", and Body what it said, at most 64 KiB.
	Status string
	Body   []byte
}

// Error implements error.
func (e *RefusedError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("it answered %s: %s", e.Status, strings.TrimSpace(string(e.Body))))
}

// Connection is a connection of raw bytes. It lasts until one end closes it.
type Connection struct {
	Conn
	end context.CancelFunc
}

// Close ends the connection.
func (c *Connection) Close() error {
	defer c.end()
	return c.Conn.Close()
}

// Connect asks a server for a connection of raw bytes, by a GET of a URL with a header that asks to switch to a
// protocol. The header may be nil and is not changed. ctx bounds the asking, not the connection, which the caller must
// close. A server's refusal is a *RefusedError.
func Connect(ctx context.Context, transport http.RoundTripper, url, protocol string, header http.Header) (*Connection, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	undo := context.AfterFunc(ctx, end)
	conn, err := connect(life, transport, url, protocol, header)
	if !undo() { // ctx ended first.
		if err == nil {
			err = conn.Close()
		}
		err = errors.Join(context.Cause(ctx), err)
	}
	if err != nil {
		end()
		return nil, err
	}
	return &Connection{Conn: conn, end: end}, nil
}

func connect(ctx context.Context, transport http.RoundTripper, url, protocol string, header http.Header) (Conn, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return Conn{}, err
	}
	if header != nil {
		request.Header = header.Clone()
	}
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", protocol)
	response, err := transport.RoundTrip(request)
	if err != nil {
		return Conn{}, err
	}
	if conn, ok := response.Body.(Conn); ok && response.StatusCode == http.StatusSwitchingProtocols {
		return conn, nil
	}
	said, err := io.ReadAll(io.LimitReader(response.Body, maxRefusal))
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return Conn{}, fmt.Errorf("reading the refusal %s: %w", response.Status, err)
	}
	return Conn{}, &RefusedError{Status: response.Status, Body: said}
}
