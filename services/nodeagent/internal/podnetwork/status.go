package podnetwork

import (
	"net/netip"
	"time"
)

// Status is how a Network stands.
type Status struct {
	// Written reports whether the network has been in effect since the start. It still is as it was if Problem is set.
	Written bool
	// Problem is why the network is not in the state that the Nodes ask for, and Since when that began.
	Problem error
	Since   time.Time
}

// Status returns how the network stands. Nodes that cannot be connected to are no Problem.
func (n *Network) Status() Status {
	n.mu.Lock()
	defer n.mu.Unlock()
	return Status{Written: n.plan != nil, Problem: n.problem, Since: n.since}
}

// Peers returns the other nodes that packets of pods are led to, ordered by name; not known before the network is
// written.
func (n *Network) Peers() (peers []Peer, known bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.plan == nil {
		return nil, false
	}
	return n.plan.Peers, true
}

// End returns the address of the peer at the end of the way that packets of pods take: its end of the tunnel, or the
// node's own.
func (p *Peer) End() netip.Addr {
	if p.Tunnel {
		return p.CIDRs[0].Addr()
	}
	return p.Address
}
