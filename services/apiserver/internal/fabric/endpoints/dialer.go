package endpoints

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// headStart is for how long a direct connection to a pod is tried alone. Where there is a route it takes
	// milliseconds.
	headStart = 300 * time.Millisecond
	// memory is for how long a node is known to be reached through its agent only.
	memory = time.Minute
	// maxNodes bounds the nodes that are known so.
	maxNodes = 10_000
)

// Dialer connects to endpoints. Where packets to a pod have no route, as to nodes behind NAT, the agent of its
// node connects to it. Any goroutine may use it.
type Dialer struct {
	direct  func(ctx context.Context, network, address string) (net.Conn, error)
	through func(ctx context.Context, pod *corev1.Pod, port string) (net.Conn, error)

	mu     sync.Mutex
	behind map[string]time.Time // until when a node is known to be reached through its agent only
}

// NewDialer returns a Dialer. direct connects to an address, and through to a port of a pod by the agent of
// its node.
func NewDialer(
	direct func(ctx context.Context, network, address string) (net.Conn, error),
	through func(ctx context.Context, pod *corev1.Pod, port string) (net.Conn, error),
) *Dialer {
	return &Dialer{direct: direct, through: through, behind: map[string]time.Time{}}
}

// Dial connects to the endpoint of ctx (With), or directly if there is none or it is no pod. ctx bounds the
// dialing, and not the connection.
func (d *Dialer) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	endpoint := from(ctx)
	pod := endpoint.Pod
	if pod == nil || pod.Spec.NodeName == "" || endpoint.Address != address {
		return d.direct(ctx, network, address)
	}
	ways := []way{
		{run: func(ctx context.Context) (net.Conn, error) { return d.direct(ctx, network, address) }},
		{run: func(ctx context.Context) (net.Conn, error) { return d.through(ctx, pod, endpoint.Port) }, agent: true},
	}
	// A node's own report says which addresses its pods have. One that names this machine, or the link's, is
	// not believed.
	if ip := net.ParseIP(hostOf(address)); ip == nil || !ip.IsGlobalUnicast() || d.isBehind(pod.Spec.NodeName, time.Now()) {
		ways = ways[1:]
	}
	conn, agent, err := race(ctx, ways)
	if err != nil {
		d.forget(pod.Spec.NodeName)
		return nil, fmt.Errorf("connecting to pod %s/%s at %s: %w", pod.Namespace, pod.Name, address, err)
	}
	if agent && len(ways) > 1 {
		d.remember(pod.Spec.NodeName, time.Now())
	}
	return conn, nil
}

func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}
	return host
}

func (d *Dialer) isBehind(node string, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return now.Before(d.behind[node])
}

func (d *Dialer) remember(node string, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.behind) >= maxNodes {
		clear(d.behind)
	}
	d.behind[node] = now.Add(memory)
}

func (d *Dialer) forget(node string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.behind, node)
}

// way is one way to an endpoint.
type way struct {
	run   func(ctx context.Context) (net.Conn, error)
	agent bool // it leads through the agent of the node
}

// attempt is what came of a way.
type attempt struct {
	conn  net.Conn
	err   error
	agent bool
}

// race returns the connection of the way that is first to have one. Each starts when the one before it has
// failed, or has taken longer than headStart. It returns when all that it started has ended or is about to
// close what it gets.
func race(ctx context.Context, ways []way) (net.Conn, bool, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	attempts := make(chan attempt, len(ways))
	begin := func(w way) {
		go func() {
			conn, err := w.run(ctx)
			attempts <- attempt{conn, err, w.agent}
		}()
	}
	timer := time.NewTimer(headStart)
	defer timer.Stop()
	begin(ways[0])
	running, next := 1, 1
	var failures []error
	for running > 0 || next < len(ways) {
		if running == 0 {
			begin(ways[next])
			running, next = 1, next+1
		}
		select {
		case <-timer.C:
			if next < len(ways) {
				begin(ways[next])
				running, next = running+1, next+1
			}
		case got := <-attempts:
			running--
			if got.err == nil {
				cancel()
				discard(attempts, running)
				return got.conn, got.agent, nil
			}
			failures = append(failures, got.err)
		}
	}
	return nil, false, errors.Join(failures...)
}

// discard waits for attempts whose context has been canceled, and closes the connections that they made.
func discard(attempts <-chan attempt, running int) {
	for range running {
		if late := <-attempts; late.conn != nil {
			_ = late.conn.Close()
		}
	}
}
