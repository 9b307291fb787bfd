// Package peers asks some of the other nodes, again and again, whether packets reach them by the way that packets
// of pods take.
package peers

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/libs/metric"
)

const (
	// Period is the mean interval between rounds. Each takes between half of it and half as much again, so that nodes
	// that start together do not ask together.
	Period = 10 * time.Second
	// MaxAsked bounds the peers that a round asks. So with any number of nodes, each is asked about once in two
	// seconds.
	MaxAsked = 5
	// MaxSilent is the number of rounds without an answer after which no peer is reached.
	MaxSilent = 3
	// timeout is how long a peer has to answer.
	timeout = 2 * time.Second
	// maxNamed bounds the names in a Verdict.
	maxNamed = 3
	// port is kube-proxy's port for health checks. A peer that refuses the connection answers as well.
	port = 10256
)

// Peer is another node.
type Peer struct {
	Node string
	// Address is an address of the node at the end of the way of pods' packets.
	Address netip.Addr
}

// Config configures a Prober.
type Config struct {
	// Peers returns the other nodes, ordered by name; not known before the Nodes are.
	Peers func() (peers []Peer, known bool)
	// Dial connects to an address; the network if nil.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Changed is called when the Verdict has changed.
	Changed    func()
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Verdict is what is known of the peers.
type Verdict struct {
	// Known reports whether enough was asked to tell.
	Known bool
	// Reached reports whether some peer answers, or there is none. A single round without an answer changes nothing.
	Reached bool
	// Count is the number of peers, and Names has the first of them.
	Count int
	Names []string
}

// Prober asks the peers of a node.
type Prober struct {
	cfg     Config
	answers prometheus.Gauge
	silent  int // rounds without an answer; only Run uses it

	mu      sync.Mutex
	verdict Verdict
}

// New returns a Prober. It starts nothing.
func New(cfg Config) *Prober {
	if cfg.Dial == nil {
		cfg.Dial = (&net.Dialer{}).DialContext
	}
	return &Prober{cfg: cfg, answers: metric.Register(cfg.Registerer, prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "garboard_pod_network_peers_reached", Help: "1 if some other node answers by the way of pods' packets or there is none, 0 if none answers.",
	}))}
}

// Verdict returns what is known.
func (p *Prober) Verdict() Verdict {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.verdict
}

// Run asks until ctx ends.
func (p *Prober) Run(ctx context.Context) error {
	for {
		if peers, known := p.cfg.Peers(); known {
			answered := p.round(ctx, peers)
			if ctx.Err() != nil {
				return nil
			}
			p.judge(peers, answered)
		}
		if !backoff.Sleep(ctx, backoff.Around(Period)) {
			return nil
		}
	}
}

// round asks some of the peers, and reports whether one answered.
func (p *Prober) round(ctx context.Context, peers []Peer) bool {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	asked := min(len(peers), MaxAsked)
	results := make(chan bool, asked)
	for _, i := range rand.Perm(len(peers))[:asked] {
		go func() { results <- p.ask(ctx, peers[i].Address) }()
	}
	answered := len(peers) == 0
	for range asked {
		answered = <-results || answered
	}
	return answered
}

// ask reports whether a peer answers.
func (p *Prober) ask(ctx context.Context, address netip.Addr) bool {
	conn, err := p.cfg.Dial(ctx, "tcp", netip.AddrPortFrom(address, port).String())
	if err == nil {
		_ = conn.Close()
	}
	return err == nil || errors.Is(err, syscall.ECONNREFUSED)
}

// judge notes the result of a round.
func (p *Prober) judge(peers []Peer, answered bool) {
	p.silent++
	if answered {
		p.silent = 0
	}
	next := Verdict{Count: len(peers)}
	for _, peer := range peers[:min(len(peers), maxNamed)] {
		next.Names = append(next.Names, peer.Node)
	}
	p.mu.Lock()
	before := p.verdict
	next.Known, next.Reached = before.Known, before.Reached
	if answered || p.silent >= MaxSilent {
		next.Known, next.Reached = true, answered
	}
	p.verdict = next
	p.mu.Unlock()
	if !next.Known || next.Known == before.Known && next.Reached == before.Reached {
		return
	}
	reached := 0.0
	if next.Reached {
		reached = 1
	}
	p.answers.Set(reached)
	p.cfg.Logger.Info("whether packets reach other nodes has changed", "reached", next.Reached, "peers", next.Count)
	p.cfg.Changed()
}
