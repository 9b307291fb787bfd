package dns

import (
	"net"
	"net/netip"
	"runtime"
	"testing"
)

// TestOpen opens an address twice: readers of one server share it, two servers don't.
func TestOpen(t *testing.T) {
	closeAll := func(conns []*net.UDPConn, listener *net.TCPListener) {
		for _, conn := range conns {
			_ = conn.Close()
		}
		_ = listener.Close()
	}
	conns, listener, err := open(t.Context(), netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().(*net.TCPAddr).AddrPort()
	if want := min(runtime.GOMAXPROCS(0), maxReaders, maxSharing); len(conns) != want {
		t.Errorf("%d sockets for UDP, not %d", len(conns), want)
	}
	for _, conn := range conns {
		if got := conn.LocalAddr().(*net.UDPAddr).AddrPort(); got != addr {
			t.Errorf("a socket for UDP is at %v, that for TCP at %v", got, addr)
		}
	}
	if others, other, err := open(t.Context(), addr); err == nil {
		closeAll(others, other)
		t.Errorf("a second server has %v too", addr)
	} else if len(others) > 0 {
		t.Errorf("open keeps %d sockets and fails with %v", len(others), err)
	}
	closeAll(conns, listener)
	again, listener, err := open(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	closeAll(again, listener)
}
