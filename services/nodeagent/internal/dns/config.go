package dns

import (
	"log/slog"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/informer"
)

// Config configures a Server.
type Config struct {
	// Factory provides the informers of Services and EndpointSlices. Its owner runs it.
	Factory *informer.Factory
	// Namespaces makes the server follow Namespaces, too, which needs the right to list them.
	Namespaces bool
	// Domain is the cluster's domain, such as "cluster.local".
	Domain string
	// Listen has the addresses to serve, each over UDP and TCP. They name one address of the node
	// each, not all. One that the node does not have yet is tried again and again. Port 0 means any.
	Listen []netip.AddrPort
	// Clients reports whether an address may ask; the server refuses all others. With nil, nobody may.
	Clients func(netip.Addr) bool
	// ResolverConfig is the path of the node's resolv.conf: whom to ask about names outside the
	// cluster, and the last search domains of pods. It is read again when it changes.
	ResolverConfig string
	// StubDomains has the servers for some domains and the names below them.
	StubDomains map[string][]netip.AddrPort
	// PodNamespace returns the namespace of the node's pod with an address, to search for that pod;
	// nobody is searched for with nil.
	PodNamespace func(netip.Addr) (namespace string, ok bool)
	// Logger logs faults; slog.Default when nil.
	Logger *slog.Logger
	// Registerer registers the metrics, which have CoreDNS' names; none when nil.
	Registerer prometheus.Registerer
}
