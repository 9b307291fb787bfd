// Package pausing lets the reads of a connection pause, so that a process wakes up once for much that arrives one by one.
package pausing

import (
	"net"
	"sync"
	"time"
)

const (
	// greeting is how long a new connection is read without pauses: while client and server greet each other, each
	// waits for the other.
	greeting = time.Second
	// bulk is the number of bytes of a read after which there is no pause: more is on its way.
	bulk = 16 << 10
)

// New returns a connection of which a read begins at least pause after the one before, while little arrives at a time.
// What arrives meanwhile is read at once, and wakes its readers once. Only one goroutine may read.
func New(of net.Conn, pause time.Duration) net.Conn {
	return &conn{Conn: of, pause: pause, begins: time.Now().Add(greeting), closed: make(chan struct{})}
}

type conn struct {
	net.Conn
	pause  time.Duration
	begins time.Time // of the pauses
	last   time.Time // zero if no pause follows
	closed chan struct{}
	once   sync.Once
}

// Read reads what has arrived, or waits for it. The first read after a pause without messages waits for nothing else.
func (c *conn) Read(b []byte) (int, error) {
	if rest := c.pause - time.Since(c.last); rest > 0 {
		timer := time.NewTimer(rest)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.closed:
		}
	}
	n, err := c.Conn.Read(b)
	c.last = time.Now()
	if n == len(b) || n >= bulk || c.last.Before(c.begins) {
		c.last = time.Time{}
	}
	return n, err
}

// Close closes the connection and ends a pause.
func (c *conn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
