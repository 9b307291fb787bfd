package server

import (
	"io"
	"net"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/libs/nodeapi"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
)

// tunnels are connections to the HTTPS server that come over the bus, from pods on nodes without a route to
// this server. It is a listener, and the handler of the requests that open them.
type tunnels struct {
	encoder *response.Encoder // set before the first request
	opened  chan net.Conn
	closed  chan struct{}
	close   func()
}

func newTunnels() *tunnels {
	t := &tunnels{opened: make(chan net.Conn), closed: make(chan struct{})}
	t.close = sync.OnceFunc(func() { close(t.closed) })
	return t
}

// Accept waits for the next connection.
func (t *tunnels) Accept() (net.Conn, error) {
	select {
	case conn := <-t.opened:
		return conn, nil
	case <-t.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept. Connections stay.
func (t *tunnels) Close() error { t.close(); return nil }

// Addr returns a name for logs.
func (t *tunnels) Addr() net.Addr { return tunnelAddress{} }

type tunnelAddress struct{}

// Network returns the name of the network.
func (tunnelAddress) Network() string { return "bus" }

// String returns a name for logs.
func (tunnelAddress) String() string { return "bus" }

// ServeHTTP makes a request's connection one to the HTTPS server. It returns when that has ended.
func (t *tunnels) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") != nodeapi.DialProtocol {
		t.encoder.Error(w, r, apierrors.NewBadRequest("this path only upgrades connections to "+nodeapi.DialProtocol))
		return
	}
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Upgrade", nodeapi.DialProtocol)
	w.WriteHeader(http.StatusSwitchingProtocols)
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // The response has begun.
	}
	conn := &tunnelConn{Conn: client, buffered: buffered, ended: make(chan struct{})}
	conn.end = sync.OnceFunc(func() { close(conn.ended) })
	defer func() { _ = conn.Close() }()
	select {
	case t.opened <- conn:
	case <-t.closed:
		return
	case <-r.Context().Done():
		return
	}
	select {
	case <-conn.ended:
	case <-r.Context().Done():
	}
}

// tunnelConn is a connection that says when it has ended.
type tunnelConn struct {
	net.Conn
	buffered io.Reader
	ended    chan struct{}
	end      func()
}

// Read reads what was buffered first.
func (c *tunnelConn) Read(p []byte) (int, error) { return c.buffered.Read(p) }

// Close ends the connection.
func (c *tunnelConn) Close() error {
	defer c.end()
	return c.Conn.Close()
}
