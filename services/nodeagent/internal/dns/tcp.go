package dns

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/services/nodeagent/internal/dns/wire"
)

// How long a connection may be idle, and how long a question or an answer may be under way.
const (
	idleTime     = 8 * time.Second
	transferTime = 2 * time.Second
)

// limiter bounds what clients have at the same time, in all and each.
type limiter struct {
	max, maxPerClient int

	mu        sync.Mutex
	all       int
	perClient map[netip.Addr]int
}

func newLimiter(most, mostPerClient int) *limiter {
	return &limiter{max: most, maxPerClient: mostPerClient, perClient: map[netip.Addr]int{}}
}

// enter reports whether a client may have one more. If so, leave must be called.
func (l *limiter) enter(client netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= l.max || l.perClient[client] >= l.maxPerClient {
		return false
	}
	l.all++
	l.perClient[client]++
	return true
}

func (l *limiter) leave(client netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.perClient[client]--; l.perClient[client] == 0 {
		delete(l.perClient, client)
	}
}

// serveTCP accepts connections until the listener is closed. Those of strangers and those beyond the
// bounds are closed at once.
func (s *Server) serveTCP(ctx context.Context, listener *net.TCPListener, tasks *sync.WaitGroup) {
	for {
		conn, err := listener.AcceptTCP()
		if err != nil {
			if errors.Is(err, net.ErrClosed) || !backoff.Sleep(ctx, 10*time.Millisecond) {
				return
			}
			continue // Too many open files, or a connection that is gone already.
		}
		client, _ := netip.ParseAddrPort(conn.RemoteAddr().String())
		from := client.Addr().Unmap()
		if !s.cfg.Clients(from) || !s.connections.enter(from) {
			_ = conn.Close()
			continue
		}
		tasks.Go(func() {
			defer s.connections.leave(from)
			defer func() { _ = conn.Close() }()
			s.serveConnection(ctx, conn, from)
		})
	}
}

// serveConnection answers the questions of a connection, one after another.
func (s *Server) serveConnection(ctx context.Context, conn *net.TCPConn, client netip.Addr) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	a := &ask{client: client, tcp: true}
	var message, out []byte
	for {
		var ok bool
		if message, ok = readMessage(conn, message); !ok {
			return
		}
		out = append(out[:0], 0, 0)
		answer, more := s.read(a, message, out)
		if more {
			a.wait = true
			ctx, cancel := context.WithTimeout(ctx, answerTime)
			var err error
			answer, err = s.respond(ctx, a, answer)
			cancel()
			if err != nil {
				return
			}
		}
		size := len(answer) - 2
		if size == 0 || size > wire.MaxTCP {
			return // Who sends no questions has no business here.
		}
		binary.BigEndian.PutUint16(answer, uint16(size))
		_ = conn.SetWriteDeadline(time.Now().Add(transferTime))
		if _, err := conn.Write(answer); err != nil {
			return
		}
		out = answer
	}
}

// readMessage reads the next message of a connection, into space if it is large enough.
func readMessage(conn net.Conn, space []byte) ([]byte, bool) {
	var size [2]byte
	_ = conn.SetReadDeadline(time.Now().Add(idleTime))
	if _, err := io.ReadFull(conn, size[:1]); err != nil {
		return nil, false
	}
	_ = conn.SetReadDeadline(time.Now().Add(transferTime))
	if _, err := io.ReadFull(conn, size[1:]); err != nil {
		return nil, false
	}
	length := int(binary.BigEndian.Uint16(size[:]))
	if length > maxQuestion {
		return nil, false
	}
	if cap(space) < length {
		space = make([]byte, length)
	}
	_, err := io.ReadFull(conn, space[:length])
	return space[:length], err == nil
}
