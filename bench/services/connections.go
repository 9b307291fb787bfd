package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/garboard/garboard/bench/sample"
)

// answerTimeout is far longer than a connection within the node takes.
const answerTimeout = 20 * time.Millisecond

// endpoints are all endpoints of Services: one listener on every address of the node. Each sends its own address
// and ends the connection.
type endpoints struct {
	listener net.Listener
	serving  sync.WaitGroup
}

func answer(ctx context.Context) (*endpoints, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp4", ":"+strconv.Itoa(sample.EndpointPort))
	if err != nil {
		return nil, fmt.Errorf("listening as the endpoints: %w", err)
	}
	e := &endpoints{listener: listener}
	e.serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			local, _, _ := net.SplitHostPort(conn.LocalAddr().String())
			_, _ = conn.Write([]byte(local))
			_ = conn.Close()
		}
	})
	return e, nil
}

func (e *endpoints) end() {
	_ = e.listener.Close()
	e.serving.Wait()
}

// watcher is the address from which to look whether Services work yet. The kernel remembers a connection that no rule
// changed for two minutes, and leads none with the same addresses and ports elsewhere meanwhile: from the address of those
// that are measured, some of them would be refused.
const watcher = "10.190.0.1"

// connect opens a connection through a Service, and returns how long that took and which endpoint answered.
func connect(ctx context.Context, service int) (took time.Duration, endpoint netip.Addr, err error) {
	return connectFrom(ctx, "", service)
}

// connectFrom is connect from an address of this machine; the system chooses one if it is empty.
func connectFrom(ctx context.Context, from string, service int) (took time.Duration, endpoint netip.Addr, err error) {
	dialer := net.Dialer{Timeout: answerTimeout}
	if from != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	began := time.Now()
	conn, err := dialer.DialContext(ctx, "tcp4", net.JoinHostPort(sample.ClusterIP(service), strconv.Itoa(sample.ServicePort)))
	took = time.Since(began)
	if err != nil {
		return took, endpoint, err
	}
	defer func() { _ = conn.Close() }()
	text := make([]byte, 64)
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	n, err := conn.Read(text)
	if err != nil {
		return took, endpoint, fmt.Errorf("reading which endpoint answers: %w", err)
	}
	endpoint, err = netip.ParseAddr(string(text[:n]))
	return took, endpoint, err
}

// check reports an error unless Services all over lead to endpoints of their own.
func (b *bench) check(ctx context.Context, n int) error {
	const most = 500
	step := max(n/most, 1)
	for i := 0; i < n; i += step {
		_, endpoint, err := connect(ctx, i)
		if isTimeout(err) {
			_, endpoint, err = connect(ctx, i) // On a busy machine a packet may be late.
		}
		if err != nil {
			return fmt.Errorf("connecting through Service %d: %w", i+1, err)
		}
		own := false
		for _, e := range sample.EndpointSlice(i).Endpoints {
			own = own || e.Addresses[0] == endpoint.String()
		}
		if !own && i != b.changed() {
			return fmt.Errorf("the Service %d leads to %s, which is not its endpoint", i+1, endpoint)
		}
	}
	return nil
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
