// Package apitunnel brings pods to the API on a node that cannot reach the apiservers. It listens on an
// address of the node and passes the bytes of each connection on to some apiserver over the bus. The pod and
// the apiserver speak TLS with each other: the node sees neither tokens nor objects.
package apitunnel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/metric"
	"github.com/garboard/garboard/services/nodeagent/internal/relay"
)

const (
	// probePeriod is the interval at which the apiservers' own addresses are tried, probeTimeout the time that
	// one has to accept a connection.
	probePeriod  = 10 * time.Second
	probeTimeout = 2 * time.Second
	// maxProbed bounds the addresses that are tried.
	maxProbed = 16
	// maxConnections bounds the connections of all pods of the node.
	maxConnections = 512
	// openTimeout bounds the opening of a connection to an apiserver.
	openTimeout = 15 * time.Second
)

// Config configures a Tunnel.
type Config struct {
	// Listen is where pods connect: an address that they can reach.
	Listen netip.AddrPort
	// Factory provides the informer of EndpointSlices.
	Factory *informer.Factory
	// Open connects with the HTTPS port of some apiserver; see Over. ctx bounds the opening.
	Open func(ctx context.Context) (net.Conn, error)
	// Dial connects to an apiserver's own address; the network if nil.
	Dial       func(ctx context.Context, network, address string) (net.Conn, error)
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Tunnel brings pods to the API.
type Tunnel struct {
	cfg    Config
	slices informer.SharedInformer[*discoveryv1.EndpointSlice]
	slots  chan struct{}
	open   prometheus.Gauge
	failed prometheus.Counter

	mu sync.Mutex
	// needed says that the apiservers' own addresses cannot be reached.
	needed bool
}

// New returns a Tunnel. It starts nothing.
func New(cfg Config) *Tunnel {
	if cfg.Dial == nil {
		cfg.Dial = (&net.Dialer{}).DialContext
	}
	return &Tunnel{
		cfg: cfg, slices: informer.For[*discoveryv1.EndpointSlice](cfg.Factory), slots: make(chan struct{}, maxConnections),
		open: metric.Register(cfg.Registerer, prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "garboard_api_tunnel_connections", Help: "Connections of pods to the API that the node passes on over the bus.",
		})),
		failed: metric.Register(cfg.Registerer, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "garboard_api_tunnel_failures_total", Help: "Connections of pods to the API that could not be passed on.",
		})),
	}
}

// Address returns the address that is to stand for the apiservers; not valid if pods can reach these.
func (t *Tunnel) Address() netip.AddrPort {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.needed {
		return netip.AddrPort{}
	}
	return t.cfg.Listen
}

// Run passes connections on until ctx ends, and returns when all have ended. It calls changed when Address has
// changed.
func (t *Tunnel) Run(ctx context.Context, changed func()) error {
	listener, err := t.listen(ctx)
	if err != nil {
		return nil // ctx has ended.
	}
	var tasks sync.WaitGroup
	defer tasks.Wait()
	tasks.Go(func() { t.Probe(ctx, changed) })
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	delays := backoff.Doubling(10*time.Millisecond, time.Second, 0)
	for {
		client, err := listener.AcceptTCP()
		if ctx.Err() != nil {
			if err == nil {
				_ = client.Close()
			}
			return nil
		}
		if err != nil {
			t.cfg.Logger.Warn("accepting a connection to the API failed", "err", err)
			backoff.Sleep(ctx, delays.Step())
			continue
		}
		select {
		case t.slots <- struct{}{}:
		default:
			t.failed.Inc()
			_ = client.Close()
			continue
		}
		tasks.Go(func() {
			defer func() { <-t.slots }()
			t.serve(ctx, client)
		})
	}
}

// listen listens, and retries until it succeeds or ctx ends.
func (t *Tunnel) listen(ctx context.Context) (*net.TCPListener, error) {
	delays := backoff.Doubling(time.Second, 30*time.Second, 0)
	for {
		listener, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(t.cfg.Listen))
		if err == nil {
			return listener, nil
		}
		wait := delays.Step()
		if ctx.Err() == nil {
			t.cfg.Logger.Warn("pods cannot reach the API over the bus", "address", t.cfg.Listen, "err", err, "again", wait)
		}
		if !backoff.Sleep(ctx, wait) {
			return nil, ctx.Err()
		}
	}
}

// serve passes one connection on.
func (t *Tunnel) serve(ctx context.Context, client net.Conn) {
	defer func() { _ = client.Close() }()
	t.open.Inc()
	defer t.open.Dec()
	opening, opened := context.WithTimeout(ctx, openTimeout)
	conn, err := t.cfg.Open(opening)
	opened()
	if err != nil {
		t.failed.Inc()
		if ctx.Err() == nil {
			t.cfg.Logger.Warn("a pod could not be connected with the API", "client", client.RemoteAddr(), "err", err)
		}
		return
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = errors.Join(conn.Close(), client.Close()) })()
	relay.Both(conn, client, client)
}

// Probe tries until ctx ends, again and again, whether the node reaches the apiservers. It calls moved when Address
// has changed. Run does it, too.
func (t *Tunnel) Probe(ctx context.Context, moved func()) {
	for {
		if t.slices.HasSynced() {
			needed := !t.reachable(ctx)
			t.mu.Lock()
			changed := needed != t.needed
			t.needed = needed
			t.mu.Unlock()
			if ctx.Err() == nil && changed {
				t.cfg.Logger.Info("the way of pods to the API has changed", "overBus", needed)
				moved()
			}
		}
		wait := probePeriod
		if !t.slices.HasSynced() {
			wait = probeTimeout / 4
		}
		if !backoff.Sleep(ctx, wait) {
			return
		}
	}
}

// reachable reports whether the node reaches all apiservers that are behind the kubernetes Service, and there
// is one.
func (t *Tunnel) reachable(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	addresses := t.apiservers()
	results := make(chan error, len(addresses))
	for _, address := range addresses {
		go func() {
			conn, err := t.cfg.Dial(ctx, "tcp", address)
			if err == nil {
				err = conn.Close()
			}
			results <- err
		}()
	}
	all := len(addresses) > 0
	for range addresses {
		all = <-results == nil && all
	}
	return all
}

// apiservers returns the addresses of the apiservers, HOST:PORT.
func (t *Tunnel) apiservers() []string {
	selector := labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: "kubernetes"})
	found, err := t.slices.Lister().Namespace("default").List(selector)
	if err != nil {
		return nil
	}
	var addresses []string
	for _, slice := range found {
		for _, endpoint := range slice.Endpoints {
			for _, port := range slice.Ports {
				if len(addresses) == maxProbed || port.Port == nil || len(endpoint.Addresses) == 0 {
					continue
				}
				addresses = append(addresses, net.JoinHostPort(endpoint.Addresses[0], fmt.Sprint(*port.Port)))
			}
		}
	}
	return addresses
}
