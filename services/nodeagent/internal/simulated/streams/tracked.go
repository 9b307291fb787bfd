package streams

import (
	"context"
	"errors"
	"net"
	"os"
)

// trackedListener accepts connections that know when their other end is gone. An http.Server does not
// look after a connection that its handler has taken over.
type trackedListener struct{ net.Listener }

// Accept returns the next connection.
func (l trackedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &trackedConn{Conn: conn}, nil
}

type trackedConn struct {
	net.Conn
	gone context.CancelFunc
}

// track returns the context of what a connection serves: it ends with the connection. A connection ends
// with its server, at the latest.
func track(ctx context.Context, conn net.Conn) context.Context {
	tracked, ok := conn.(*trackedConn)
	if !ok {
		return ctx
	}
	ctx, tracked.gone = context.WithCancel(ctx)
	context.AfterFunc(ctx, func() { _ = tracked.Conn.Close() })
	return ctx
}

// Read reads, and ends the context of the connection when there is nothing more to read.
func (c *trackedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.gone()
	}
	return n, err
}

// Close closes the connection, which may be closed already.
func (c *trackedConn) Close() error {
	c.gone()
	if err := c.Conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
