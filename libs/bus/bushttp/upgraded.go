package bushttp

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/garboard/garboard/libs/bus/bushttp/internal/deadline"
	"github.com/garboard/garboard/libs/bus/bushttp/internal/protocol"
)

// Conn is the caller's end of an upgraded connection: the body of a response with the status
// http.StatusSwitchingProtocols. Read and Write may be called at the same time.
type Conn struct{ body }

var _ net.Conn = Conn{}

// Write sends to the server, and blocks while the handler does not read.
func (u Conn) Write(p []byte) (int, error) {
	u.sending.Lock()
	defer u.sending.Unlock()
	message := u.transport.buffers.Get()
	defer u.transport.buffers.Put(message)
	for written := 0; ; {
		if written == len(p) {
			return written, nil
		}
		room, err := u.room()
		if err != nil {
			return written, err
		}
		n := min(room, len(p)-written)
		if !u.say(message, protocol.Frame{Kind: protocol.KindRequest, Body: p[written : written+n]}) {
			return written, fmt.Errorf("writing over NATS: %w", net.ErrClosed)
		}
		written += n
	}
}

// CloseWrite tells the handler that nothing more comes. Read goes on.
func (u Conn) CloseWrite() error {
	u.say(new([]byte), protocol.Frame{Kind: protocol.KindRequest, Flags: protocol.FlagLast})
	deadline.Signal(u.credited) // A Write that waits must not.
	u.mu.Lock()
	both := u.outEnded && u.inEnded && !u.done
	if both {
		u.finish(io.EOF)
	}
	u.mu.Unlock()
	if both {
		u.transport.remove(u.call)
	}
	return nil
}

// Close ends the connection. The handler receives what was written.
func (u Conn) Close() error { return errors.Join(u.CloseWrite(), u.body.Close()) }

// LocalAddr returns the address of this end.
func (u Conn) LocalAddr() net.Addr { return protocol.Addr(u.transport.subject(u.number)) }

// RemoteAddr returns the address of the server.
func (u Conn) RemoteAddr() net.Addr {
	u.mu.Lock()
	defer u.mu.Unlock()
	return protocol.Addr(u.server)
}

// SetDeadline sets both deadlines.
func (u Conn) SetDeadline(at time.Time) error {
	return errors.Join(u.SetReadDeadline(at), u.SetWriteDeadline(at))
}

// SetReadDeadline makes Read fail after at; zero means never.
func (u Conn) SetReadDeadline(at time.Time) error {
	u.reading.Set(&u.mu, at, u.wake)
	return nil
}

// SetWriteDeadline makes Write fail after at; zero means never.
func (u Conn) SetWriteDeadline(at time.Time) error {
	u.writing.Set(&u.mu, at, u.credited)
	return nil
}
