package standalone

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"syscall"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// DefaultListen is the apiserver's address when Config.Listen is empty. The apiserver also listens
// at the address of the default route, with the same port.
const DefaultListen = "127.0.0.1:6443"

// door is where the apiserver listens, and the address that the kubernetes Service publishes to
// pods.
type door struct {
	listener net.Listener
	// server is host:port for programs on this machine.
	server string
	// published is the address for pods. If it is empty, private says why.
	published, private string
}

// hosts returns further names for the serving certificate.
func (d *door) hosts() []string {
	if d.published == "" {
		return nil
	}
	return []string{d.published}
}

// says returns a line for the user: at which address pods reach the API, or why they cannot.
func (d *door) says() string {
	if d.private != "" {
		return "Pods cannot reach the API, the kubernetes Service has no endpoints: " + d.private + "."
	}
	if d.published != "" {
		return "Pods reach the API at " + d.published + " as well, the endpoint of the kubernetes Service."
	}
	return "Pods reach the API at the endpoint of the kubernetes Service."
}

// open opens the apiserver's ports before anything is started or written.
func (c Config) open(ctx context.Context) (*door, error) {
	if c.Listen != "" {
		listener, err := listen(ctx, c.Listen)
		if err != nil {
			return nil, err
		}
		d := &door{listener: listener, server: reachable(listener.Addr())}
		if address, err := netip.ParseAddrPort(listener.Addr().String()); err == nil && address.Addr().Unmap().IsLoopback() {
			d.private = fmt.Sprintf("--listen %s is a loopback address; leave --listen out, or give an address of this machine", c.Listen)
		}
		return d, nil
	}
	local, err := listen(ctx, cmp.Or(c.local, DefaultListen))
	if err != nil {
		return nil, err
	}
	d := &door{listener: local, server: local.Addr().String()}
	address, err := c.routed()
	if err != nil {
		d.private = fmt.Sprintf("%v; give an address of this machine with --listen, or restart once there is one", err)
		return d, nil
	}
	port := local.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // It is a TCP listener.
	outer, err := listen(ctx, net.JoinHostPort(address.String(), strconv.Itoa(port)))
	if err != nil {
		return nil, errors.Join(err, local.Close())
	}
	d.listener, d.published = join(local, outer), address.String()
	return d, nil
}

// routed returns this machine's address on its default route.
func (c Config) routed() (netip.Addr, error) {
	choose := utilnet.ChooseHostInterface
	if c.choose != nil {
		choose = c.choose
	}
	found, err := choose()
	if err != nil {
		c.Logger.Info("finding this machine's address failed", "err", err)
		return netip.Addr{}, errors.New("this machine has no default route")
	}
	address, ok := netip.AddrFromSlice(found)
	if address = address.Unmap(); !ok || !address.IsGlobalUnicast() {
		return netip.Addr{}, fmt.Errorf("the address of this machine's default route, %s, is not one that pods can reach", found)
	}
	return address, nil
}

func listen(ctx context.Context, address string) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is taken by another program; stop that one, or choose another address with --listen", address)
	}
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w; choose another address with --listen", address, err)
	}
	return listener, nil
}

// reachable returns the address at which a program on this machine reaches a listener.
func reachable(address net.Addr) string {
	host, port, err := net.SplitHostPort(address.String())
	if err != nil {
		return address.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// joined combines several listeners. Its address is that of the first.
type joined struct {
	all      []net.Listener
	accepted chan accepted
	closed   chan struct{}
	close    func() error
	running  sync.WaitGroup
}

type accepted struct {
	conn net.Conn
	err  error
}

// join combines listeners into one that accepts on all of them. Closing it closes them.
func join(all ...net.Listener) *joined {
	j := &joined{all: all, accepted: make(chan accepted), closed: make(chan struct{})}
	j.close = sync.OnceValue(func() error {
		close(j.closed)
		var errs []error
		for _, listener := range all {
			errs = append(errs, listener.Close())
		}
		j.running.Wait()
		return errors.Join(errs...)
	})
	for _, listener := range all {
		j.running.Go(func() { j.accept(listener) })
	}
	return j
}

func (j *joined) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		select {
		// The caller of Accept pauses after an error; until then nothing more is accepted.
		case j.accepted <- accepted{conn, err}:
		case <-j.closed:
			if conn != nil {
				_ = conn.Close()
			}
			return
		}
	}
}

// Accept returns the next connection of any listener.
func (j *joined) Accept() (net.Conn, error) {
	select {
	case next := <-j.accepted:
		return next.conn, next.err
	case <-j.closed:
		return nil, net.ErrClosed
	}
}

// Close closes all listeners, and returns when no more connections are accepted.
func (j *joined) Close() error { return j.close() }

// Addr returns the address of the first listener.
func (j *joined) Addr() net.Addr { return j.all[0].Addr() }
