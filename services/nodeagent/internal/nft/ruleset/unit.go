package ruleset

import (
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Rank orders the claims of several Services to one frontend: a lower rank wins.
type Rank uint8

// The ranks. What the apiserver allocates comes first, so that nobody takes over another's cluster IP
// with an external IP.
const (
	Allocated Rank = iota
	LoadBalanced
	External
)

// Frontend is an address, protocol and port where a Service port accepts traffic.
type Frontend struct {
	// Addr is the zero value for a node port.
	Addr     netip.Addr
	Protocol Protocol
	Port     uint16
}

// Claim is what a Service port wants to happen at a frontend. A zero verdict means nothing.
type Claim struct {
	Frontend Frontend
	Rank     Rank
	// Dispatch is where its new connections continue.
	Dispatch Verdict
	// Absent is what happens to connections that Dispatch sends nowhere.
	Absent Verdict
	// Firewall is where its packets are checked before Dispatch.
	Firewall Verdict
}

// Datagrams has what is needed to find stale connections of a UDP Service port: those to one of the
// frontends that go to none of the endpoints.
type Datagrams struct {
	Frontends []Frontend
	// Serving has the endpoints that serve, ready or terminating, on any node.
	Serving []netip.AddrPort
}

// Unit is everything that one Service contributes to the table of one family.
type Unit struct {
	Owner types.NamespacedName
	// Created is the Service's creation time. Of claims with one rank the oldest wins.
	Created time.Time
	// Chains have a Digest, and no two of all units have one name.
	Chains []Chain
	// Sets are the affinity sets.
	Sets []Set
	// ClusterIPs and Hairpins are elements of the shared sets; several units may have one.
	ClusterIPs []netip.Addr
	Hairpins   []Key
	Claims     []Claim
	// Datagrams has the UDP ports.
	Datagrams []Datagrams
	// HealthPort is the health-check node port; 0 for none.
	HealthPort uint16
	// LocalReady is the number of ready endpoints on the node.
	LocalReady int
	// LacksInternal and LacksExternal are the numbers of ports with traffic policy Local that have
	// endpoints, but none on the node.
	LacksInternal, LacksExternal int
}
