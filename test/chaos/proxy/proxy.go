// Package proxy is a TCP proxy that simulates network faults: it cuts connections, holds them up,
// and drops, repeats and swaps messages that a NATS server sends.
package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// Faults has the probabilities of faults of messages from a NATS server.
type Faults struct{ Drop, Repeat, Swap float64 }

// Proxy forwards connections to one address. It is safe for concurrent use.
type Proxy struct {
	listener net.Listener
	target   string
	work     sync.WaitGroup

	mu      sync.Mutex
	random  *rand.Rand
	open    map[net.Conn]bool
	cut     bool
	closed  bool
	held    chan struct{} // closed while nothing is held up
	delay   time.Duration
	faults  Faults
	changed int
}

// New creates a proxy at a free port of the loopback address that forwards to target, until Close.
// random decides which messages are affected by faults.
func New(ctx context.Context, target string, random *rand.Rand) (*Proxy, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("opening a proxy to %s: %w", target, err)
	}
	p := &Proxy{listener: listener, target: target, random: random, open: map[net.Conn]bool{}, held: make(chan struct{})}
	close(p.held)
	p.work.Go(p.accept)
	return p, nil
}

// Address returns the address at which the proxy listens.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Cut closes all connections, and every new one immediately, until Heal.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	p.closeAll()
}

// Reset closes all connections; new ones are forwarded.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeAll()
}

func (p *Proxy) closeAll() {
	for conn := range p.open {
		_ = conn.Close()
	}
}

// Hold silently stops forwarding until Heal.
func (p *Proxy) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.held:
		p.held = make(chan struct{})
	default:
	}
}

// Delay delays all data; 0 ends the delay.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Spoil injects faults into the messages of a NATS server; zero Faults end that.
func (p *Proxy) Spoil(f Faults) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = f
}

// Spoiled returns the number of messages dropped, repeated or swapped so far.
func (p *Proxy) Spoiled() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

// Heal ends the effects of Cut, Hold, Delay and Spoil.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut, p.delay, p.faults = false, 0, Faults{}
	p.release()
}

func (p *Proxy) release() {
	select {
	case <-p.held:
	default:
		close(p.held)
	}
}

// Close ends the proxy and all its connections.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	_ = p.listener.Close()
	p.closeAll()
	p.release()
	p.mu.Unlock()
	p.work.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.work.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	if !p.enter(client) {
		return
	}
	defer p.leave(client)
	server, err := new(net.Dialer).Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	if !p.enter(server) {
		return
	}
	defer p.leave(server)
	var both sync.WaitGroup
	both.Go(func() {
		p.copy(server, client)
		_, _ = client.Close(), server.Close()
	})
	both.Go(func() {
		p.frames(client, bufio.NewReaderSize(server, 64<<10))
		_, _ = client.Close(), server.Close()
	})
	both.Wait()
}

// enter registers a connection, and reports whether it is allowed.
func (p *Proxy) enter(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut || p.closed {
		return false
	}
	p.open[conn] = true
	return true
}

func (p *Proxy) leave(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, conn)
}

// pass waits until data may be forwarded, and returns the faults to apply.
func (p *Proxy) pass() Faults {
	for {
		p.mu.Lock()
		held, delay, faults := p.held, p.delay, p.faults
		p.mu.Unlock()
		if delay > 0 {
			<-time.After(delay)
		}
		select {
		case <-held:
			return faults
		default:
		}
		<-held
	}
}

func (p *Proxy) copy(to io.Writer, from io.Reader) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		p.pass()
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// frames forwards a NATS server's output, frame by frame.
func (p *Proxy) frames(to io.Writer, from *bufio.Reader) {
	out := bufio.NewWriterSize(to, 64<<10)
	var kept []byte // a message to send after the next one
	for {
		frame, message, err := readFrame(from)
		if err != nil {
			_ = out.Flush()
			return
		}
		times := 1
		if faults := p.pass(); message && faults != (Faults{}) {
			times, kept = p.spoil(faults, frame, kept)
		}
		for range times {
			_, _ = out.Write(frame)
		}
		if times > 0 && kept != nil {
			_, _ = out.Write(kept)
			kept = nil
		}
		if from.Buffered() > 0 {
			continue
		}
		if err := out.Flush(); err != nil {
			return
		}
	}
}

// spoil decides how often a message is sent now, and which message is kept for later.
func (p *Proxy) spoil(faults Faults, frame, kept []byte) (times int, later []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch luck := p.random.Float64(); {
	case luck < faults.Drop:
		p.changed++
		return 0, kept
	case luck < faults.Drop+faults.Repeat:
		p.changed++
		return 2, kept
	case luck < faults.Drop+faults.Repeat+faults.Swap && kept == nil:
		p.changed++
		return 0, frame
	}
	return 1, kept
}

// maxFrame is larger than any message of the chaos test's servers.
const maxFrame = 16 << 20

var errFrame = errors.New("not the NATS protocol")

// readFrame reads a line of the NATS protocol, with the payload if it is a message.
func readFrame(from *bufio.Reader) (frame []byte, message bool, err error) {
	line, err := from.ReadBytes('\n')
	if err != nil {
		return nil, false, err
	}
	size, message, err := payload(line)
	if err != nil || !message {
		return line, false, err
	}
	frame = make([]byte, len(line)+size+2)
	copy(frame, line)
	if _, err := io.ReadFull(from, frame[len(line):]); err != nil {
		return nil, false, err
	}
	return frame, true, nil
}
