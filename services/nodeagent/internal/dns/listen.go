package dns

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/services/nodeagent/internal/dns/wire"
)

// How long the server waits before it tries again to listen on an address.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// answerTime is how long an answer may take: less than the 5 s after which resolvers give up.
const answerTime = 4500 * time.Millisecond

// maxQuestion is the size of the largest question that is read, in bytes.
const maxQuestion = 4096

// readBuffer is how many bytes of questions the kernel keeps for a socket while many come at once.
const readBuffer = 1 << 20

// maxReaders is how many sockets an address has for UDP, each with one reader, if there are as many processors. Several
// readers of one socket would wake one another for every question.
const maxReaders = 8

// listen serves one address over UDP and TCP until ctx ends. It tries for as long as it takes; ready
// is called once when it has succeeded, or ctx has ended.
func (s *Server) listen(ctx context.Context, addr netip.AddrPort, ready func()) error {
	ready = sync.OnceFunc(ready)
	defer ready()
	retries := backoff.Doubling(firstRetry, lastRetry, 0.1)
	for logged := false; ; logged = true {
		conns, listener, err := open(ctx, addr)
		if err == nil {
			s.log.Info("listening for DNS questions", "address", listener.Addr())
			s.serve(ctx, conns, listener, ready)
			return nil
		}
		if ctx.Err() != nil {
			return nil
		}
		if !logged {
			s.log.Warn("listening for DNS questions, which is tried again", "address", addr, "err", err)
		}
		if !backoff.Sleep(ctx, retries.Step()) {
			return nil
		}
	}
}

// open opens the sockets of an address, with the same port. Only those for UDP share it.
func open(ctx context.Context, addr netip.AddrPort) (conns []*net.UDPConn, listener *net.TCPListener, err error) {
	defer func() {
		if err != nil {
			for _, conn := range conns {
				err = errors.Join(err, conn.Close())
			}
			conns = nil
		}
	}()
	shared := net.ListenConfig{Control: share}
	for range min(runtime.GOMAXPROCS(0), maxReaders, maxSharing) {
		opened, err := shared.ListenPacket(ctx, "udp", addr.String())
		if err != nil {
			return conns, nil, err
		}
		conn, ok := opened.(*net.UDPConn)
		if !ok {
			return conns, nil, errors.Join(errors.New("a UDP socket of an unknown type"), opened.Close())
		}
		conns = append(conns, conn)
		bound, ok := conn.LocalAddr().(*net.UDPAddr)
		if !ok {
			return conns, nil, errors.New("a UDP socket without an address")
		}
		addr = netip.AddrPortFrom(addr.Addr(), bound.AddrPort().Port())
	}
	// It fails if another server has the address, which may share its own sockets for UDP.
	var alone net.ListenConfig
	opened, err := alone.Listen(ctx, "tcp", addr.String())
	if err != nil {
		return conns, nil, err
	}
	listener, ok := opened.(*net.TCPListener)
	if !ok {
		return conns, nil, errors.Join(errors.New("a TCP socket of an unknown type"), opened.Close())
	}
	return conns, listener, nil
}

// serve answers what comes in until ctx ends, and closes the sockets. It answers nothing before the
// resolver configuration of the node is read.
func (s *Server) serve(ctx context.Context, conns []*net.UDPConn, listener *net.TCPListener, ready func()) {
	stop := context.AfterFunc(ctx, func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
		_ = listener.Close()
	})
	defer stop()
	addr, _ := netip.ParseAddrPort(listener.Addr().String())
	s.mu.Lock()
	s.bound = append(s.bound, addr)
	s.mu.Unlock()
	ready()
	// Without the search domains of the node an answer could be wrong. Until then the kernel keeps
	// questions, and what checks for loops among them.
	select {
	case <-s.forward.Loaded():
	case <-ctx.Done():
	}
	var tasks sync.WaitGroup
	for _, conn := range conns {
		_ = conn.SetReadBuffer(readBuffer) // The kernel's limit may be lower.
		tasks.Go(func() { s.serveUDP(ctx, conn, &tasks) })
	}
	tasks.Go(func() { s.serveTCP(ctx, listener, &tasks) })
	tasks.Wait()
	s.mu.Lock()
	s.bound = slices.DeleteFunc(s.bound, func(other netip.AddrPort) bool { return other == addr })
	s.mu.Unlock()
}

// serveUDP answers the questions of a UDP socket until it is closed.
func (s *Server) serveUDP(ctx context.Context, conn *net.UDPConn, tasks *sync.WaitGroup) {
	message, out := make([]byte, maxQuestion), make([]byte, 0, wire.MaxUDP)
	var a ask
	for {
		n, from, err := conn.ReadFromUDPAddrPort(message)
		if err != nil {
			if errors.Is(err, net.ErrClosed) || !backoff.Sleep(ctx, time.Millisecond) {
				return
			}
			continue // An error of one packet.
		}
		a.client = from.Addr().Unmap()
		answer, more := s.read(&a, message[:n], out[:0])
		if more {
			answer, err = s.respond(ctx, &a, answer)
			if errors.Is(err, errLater) {
				s.later(ctx, conn, from, &a, tasks)
				continue
			}
		}
		if len(answer) > 0 {
			// A client that cannot be reached asks again.
			_, _ = conn.WriteToUDPAddrPort(answer, from)
		}
	}
}

// later answers a question that has to wait for other servers, unless too many do.
func (s *Server) later(ctx context.Context, conn *net.UDPConn, to netip.AddrPort, a *ask, tasks *sync.WaitGroup) {
	if !s.waiting.enter(a.client) {
		_, _ = conn.WriteToUDPAddrPort(s.busy(a), to)
		return
	}
	waiting := a.clone()
	tasks.Go(func() {
		defer s.waiting.leave(waiting.client)
		ctx, cancel := context.WithTimeout(ctx, answerTime)
		defer cancel()
		if answer, err := s.respond(ctx, waiting, nil); err == nil && len(answer) > 0 {
			_, _ = conn.WriteToUDPAddrPort(answer, to)
		}
	})
}
