// Package dialing opens connections to NATS servers that are only on this machine, and such that are read with pauses.
package dialing

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

// Dialer connects to a server.
type Dialer interface {
	Dial(network, address string) (net.Conn, error)
}

// Pausing opens connections of which a read begins at least Pause after the one before, while little arrives at a time.
type Pausing struct {
	Dialer
	Pause time.Duration
}

// Dial connects to address.
func (d Pausing) Dial(network, address string) (net.Conn, error) {
	conn, err := d.Dialer.Dial(network, address)
	if err != nil {
		return nil, err
	}
	return newPausing(conn, d.Pause), nil
}

// pausing is a connection of which a read begins a while after the one before, unless that had much. What arrives
// meanwhile is read at once, and wakes its readers once. Only one goroutine may read.
type pausing struct {
	net.Conn
	pause  time.Duration
	begins time.Time // of the pauses
	last   time.Time // zero if no pause follows
	closed chan struct{}
	once   sync.Once
}

func newPausing(conn net.Conn, pause time.Duration) *pausing {
	return &pausing{Conn: conn, pause: pause, begins: time.Now().Add(greeting), closed: make(chan struct{})}
}

// Read reads what has arrived, or waits for it. The first read after a pause without messages waits for nothing else.
func (p *pausing) Read(b []byte) (int, error) {
	if rest := p.pause - time.Since(p.last); rest > 0 {
		timer := time.NewTimer(rest)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-p.closed:
		}
	}
	n, err := p.Conn.Read(b)
	p.last = time.Now()
	if n == len(b) || n >= bulk || p.last.Before(p.begins) {
		p.last = time.Time{}
	}
	return n, err
}

// Close closes the connection and ends a pause.
func (p *pausing) Close() error {
	p.once.Do(func() { close(p.closed) })
	return p.Conn.Close()
}
