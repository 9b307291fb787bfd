package nodeproxy

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bushttp"
)

const (
	// idleTime is how long the transport to a node is kept after its last request.
	idleTime = time.Minute
	// sweepTime is how often idle transports are looked for.
	sweepTime = 15 * time.Second
	// held bounds what all nodes together have sent and clients have not read yet, in bytes, in addition to 32 KiB for
	// each request. It is below what NATS keeps for one subscriber.
	held = 32 << 20
)

// Nodes calls node agents over the bus. Any goroutine may use it.
type Nodes struct {
	conn    func() *bus.Conn
	budget  *bushttp.Budget
	garbage *garbage
	logger  *slog.Logger

	mu    sync.Mutex
	nodes map[string]*node
}

// node is the transport to one node.
type node struct {
	transport *bushttp.Transport
	used      time.Time
	requests  int // that RoundTrip has not answered
}

// NewNodes returns Nodes. conn returns the bus, or nil until it is reached.
func NewNodes(conn func() *bus.Conn, logger *slog.Logger) *Nodes {
	return &Nodes{conn: conn, budget: bushttp.NewBudget(held), garbage: newGarbage(), logger: logger, nodes: map[string]*node{}}
}

// Run closes the transports that nobody uses, and all of them, with what they carry, once ctx ends. It has the garbage
// of what they carry collected.
func (n *Nodes) Run(ctx context.Context) error {
	ticker := time.NewTicker(sweepTime)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			n.sweep(time.Now(), 0)
			return nil
		case now := <-ticker.C:
			n.sweep(now, idleTime)
		case <-n.garbage.much:
			n.garbage.collect()
		}
	}
}

// sweep closes the transports that were not used for idle; all of them if that is 0.
func (n *Nodes) sweep(now time.Time, idle time.Duration) {
	n.mu.Lock()
	var closing []*bushttp.Transport
	for name, each := range n.nodes {
		if idle == 0 || each.requests == 0 && now.Sub(each.used) > idle && each.transport.Calls() == 0 {
			closing = append(closing, each.transport)
			delete(n.nodes, name)
		}
	}
	n.mu.Unlock()
	for _, transport := range closing {
		transport.Close()
	}
}

// To returns the round tripper to the agent of a node. Errors are those of bushttp, and
// bus.ErrDisconnected while there is no bus.
func (n *Nodes) To(name string) http.RoundTripper { return to{n, name} }

// to calls one node.
type to struct {
	nodes *Nodes
	name  string
}

// RoundTrip implements http.RoundTripper.
func (t to) RoundTrip(r *http.Request) (*http.Response, error) {
	node, err := t.nodes.begin(t.name)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	defer t.nodes.end(node)
	return node.transport.RoundTrip(r)
}

func (n *Nodes) begin(name string) (*node, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	one := n.nodes[name]
	if one == nil {
		conn := n.conn()
		if conn == nil {
			return nil, bus.ErrDisconnected
		}
		// It ends with Run, and not with the request that happens to be the first.
		transport, err := bushttp.New(context.Background(), bushttp.Config{
			Conn: conn, Node: name, Budget: n.budget, Received: n.garbage.received, Logger: n.logger,
		})
		if err != nil {
			return nil, fmt.Errorf("calling node %s: %w", name, err)
		}
		one = &node{transport: transport}
		n.nodes[name] = one
	}
	one.requests++
	one.used = time.Now()
	return one, nil
}

func (n *Nodes) end(one *node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	one.requests--
	one.used = time.Now()
}
