package rules

import (
	"fmt"
	"net/netip"

	netutils "k8s.io/utils/net"
)

// The reasons of refusals, as they appear in Events.
const (
	ReasonEndpointRefused  = "EndpointAddressRefused"
	ReasonAddressRefused   = "ServiceAddressRefused"
	ReasonTooManyEndpoints = "TooManyEndpoints"
	ReasonTooManyRanges    = "TooManySourceRanges"
)

const (
	// maxEndpoints is the most endpoints of a Service port that get rules.
	maxEndpoints = 10_000
	// maxSourceRanges is the most load balancer source ranges of a Service that admit traffic.
	maxSourceRanges = 2_000
	// maxRefusals is the most refusals that one Compile returns.
	maxRefusals = 10
)

// Refusal says what of a Service or EndpointSlice got no rules, and why.
type Refusal struct {
	// Slice is the EndpointSlice's name; empty when the fault is in the Service.
	Slice string
	// Reason and Message are for an Event.
	Reason, Message string
}

// parseAddr returns an address of the API, which may have leading zeros in objects from older
// Kubernetes. It reports false for anything else, and for an address with a zone.
func parseAddr(text string) (netip.Addr, bool) {
	addr, ok := netip.AddrFromSlice(netutils.ParseIPSloppy(text))
	return addr.Unmap(), ok
}

// special returns the reason for which no packet may be sent to an address, or "".
func special(addr netip.Addr) string {
	switch {
	case addr.IsUnspecified():
		return "unspecified"
	case addr.IsLoopback():
		return "loopback"
	case addr.IsLinkLocalUnicast():
		return "link-local"
	case addr.IsMulticast():
		return "multicast"
	case addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "broadcast"
	}
	return ""
}

// refusals collects the refusals of one Compile, up to a bound.
type refusals []Refusal

func (r *refusals) add(slice, reason, format string, args ...any) {
	if len(*r) < maxRefusals {
		*r = append(*r, Refusal{Slice: slice, Reason: reason, Message: fmt.Sprintf(format, args...)})
	}
}
