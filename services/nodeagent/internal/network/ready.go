package network

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/metric"
)

// The names of the parts.
const (
	podNetworkPart = "pod network"
	proxyPart      = "service proxy"
	dnsPart        = "DNS"
)

// errUnconnected is the problem of parts that have not begun.
var errUnconnected = errors.New("the network parts are not connected with the plane yet")

// Parts returns the names of the parts that are switched on.
func (n *Network) Parts() []string {
	var names []string
	for _, one := range []struct {
		name string
		on   bool
	}{{podNetworkPart, n.cfg.PodNetwork.On}, {proxyPart, n.cfg.Proxy.On}, {dnsPart, n.cfg.DNS.On}} {
		if one.on {
			names = append(names, one.name)
		}
	}
	return names
}

// Ready returns the reason why a part is not ready; nil if it is.
func (n *Network) Ready(part string) error {
	n.mu.Lock()
	ready := n.ready[part]
	n.mu.Unlock()
	if ready == nil {
		return errUnconnected
	}
	return ready()
}

// fault returns why a part is not ready, and since when that was noticed.
func (n *Network) fault(part string, now time.Time) fault {
	err := n.Ready(part)
	n.mu.Lock()
	defer n.mu.Unlock()
	one, known := n.faults[part]
	switch {
	case err == nil:
		delete(n.faults, part)
		return fault{}
	case !known:
		one.since = now
	}
	one.err = err
	n.faults[part] = one
	return one
}

// runs notes how to tell whether a part is ready.
func (n *Network) runs(part string, ready func() error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ready[part] = ready
}

// now asks a function that waits until something is ready whether it is.
func now(wait func(context.Context) error) func() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return func() error { return wait(ctx) }
}

// measure has the registry tell which parts are ready.
func (n *Network) measure() {
	for _, name := range n.Parts() {
		metric.Register(n.cfg.Registerer, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "garboard_network_part_ready", Help: "1 if a part of the node's network is ready, 0 if not.", ConstLabels: prometheus.Labels{"network_part": name},
		}, func() float64 {
			if n.Ready(name) != nil {
				return 0
			}
			return 1
		}))
	}
}
