package conntrack

import (
	"errors"
	"fmt"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
)

// timeout bounds the wait for an answer of the kernel.
const timeout = 10 * time.Second

// Flows is a connection to the kernel's connection tracking, of the network namespace in which it
// was opened.
type Flows struct{ handle *netlink.Handle }

// Open connects to the kernel. It needs CAP_NET_ADMIN in the network namespace of the calling thread.
// On systems other than Linux it returns an error.
func Open() (*Flows, error) {
	handle, err := netlink.NewHandle(unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, fmt.Errorf("connecting to connection tracking: %w", err)
	}
	if err := handle.SetSocketTimeout(timeout); err != nil {
		handle.Close()
		return nil, fmt.Errorf("connecting to connection tracking: %w", err)
	}
	return &Flows{handle}, nil
}

// Close ends the connection.
func (f *Flows) Close() error {
	f.handle.Close()
	return nil
}

// End ends the stale connections of a family and returns how many there were. It reads all
// connections of the node.
func (f *Flows) End(family ruleset.Family, stale *Stale) (int, error) {
	kernel := netlink.InetFamily(unix.AF_INET)
	if family == ruleset.IPv6 {
		kernel = unix.AF_INET6
	}
	n, err := f.handle.ConntrackDeleteFilters(netlink.ConntrackTable, kernel, filter{stale})
	// An interrupted reading is complete but for connections that came or went meanwhile.
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return int(n), fmt.Errorf("ending stale UDP connections: %w", err)
	}
	return int(n), nil
}

// filter is a Stale for netlink.
type filter struct{ *Stale }

func (f filter) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	return flow.Forward.Protocol == unix.IPPROTO_UDP &&
		f.Match(addrPort(flow.Forward.DstIP, flow.Forward.DstPort), addrPort(flow.Reverse.SrcIP, flow.Reverse.SrcPort))
}
