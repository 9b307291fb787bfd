package bus_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bustest"
)

// muzzle proxies connections to a server. Connections that it silences stay open but carry nothing
// any more, as when the server's process is stopped.
type muzzle struct {
	listener net.Listener
	server   string
	all      sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
	mute  []chan struct{} // of the active connections
}

func newMuzzle(t *testing.T, server string) *muzzle {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &muzzle{listener: listener, server: server}
	m.all.Go(func() { m.accept(t.Context()) })
	t.Cleanup(func() {
		_ = listener.Close()
		m.mu.Lock()
		for _, conn := range m.conns {
			_ = conn.Close()
		}
		m.mu.Unlock()
		m.silence()
		m.all.Wait()
	})
	return m
}

func (m *muzzle) accept(ctx context.Context) {
	for {
		client, err := m.listener.Accept()
		if err != nil {
			return
		}
		server, err := new(net.Dialer).DialContext(ctx, "tcp", m.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		mute := make(chan struct{})
		m.mu.Lock()
		m.conns, m.mute = append(m.conns, client, server), append(m.mute, mute)
		m.mu.Unlock()
		m.all.Go(func() { pass(server, client, mute) })
		m.all.Go(func() { pass(client, server, mute) })
	}
}

// pass copies until mute is closed, and then keeps both ends open.
func pass(to, from net.Conn, mute <-chan struct{}) {
	buffer := make([]byte, 4096)
	for {
		n, err := from.Read(buffer)
		select {
		case <-mute:
			return
		default:
		}
		if _, writeErr := to.Write(buffer[:n]); writeErr != nil || err != nil {
			_, _ = to.Close(), from.Close()
			return
		}
	}
}

// silence mutes all present connections.
func (m *muzzle) silence() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, mute := range m.mute {
		close(mute)
	}
	m.mute = nil
}

// TestSilentServerIsLeft silences a connection without ending it.
func TestSilentServerIsLeft(t *testing.T) {
	t.Parallel()
	server := bustest.NewServer(t)
	m := newMuzzle(t, strings.TrimPrefix(server.URL(), "nats://"))
	conn, err := bus.Connect(t.Context(), bus.Config{URLs: []string{"nats://" + m.listener.Addr().String()}, Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	back := make(chan struct{}, 8)
	defer conn.OnReconnect(func() { back <- struct{}{} })()
	if err := conn.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.silence()
	receive(t, back, "another connection in place of the silent one")
	if err := conn.Flush(t.Context()); err != nil {
		t.Errorf("after the silence: %v", err)
	}
}
