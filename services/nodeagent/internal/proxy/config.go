package proxy

import (
	"cmp"
	"log/slog"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/services/nodeagent/internal/nft"
	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
	"github.com/garboard/garboard/services/nodeagent/internal/proxy/conntrack"
)

// The defaults of Config.
const (
	DefaultTable         = "garboard"
	DefaultHealthAddress = "0.0.0.0:10256"
	defaultMinSyncPeriod = 100 * time.Millisecond
	defaultSyncPeriod    = time.Hour
	defaultVerifyPeriod  = 30 * time.Second
)

// Config configures a Proxy.
type Config struct {
	// Factory has the informers of Services and EndpointSlices. Its owner runs it.
	Factory *informer.Factory
	// NodeName is the name of the node. Endpoints with this nodeName are local.
	NodeName string
	// NodeIPs are the node's own addresses. Rules are written for the families that they have, and
	// for both when there are none.
	NodeIPs []netip.Addr
	// Zone returns the value of the node's topology.kubernetes.io/zone label; no zone when nil.
	Zone func() string
	// Eligible reports whether the node may get traffic from load balancers, for /healthz; always
	// when nil. A node that is deleted, or has the taint ToBeDeletedByClusterAutoscaler, may not.
	Eligible func() bool
	// PodCIDRs returns the ranges of the node's own pods, which tell their traffic; nil for none.
	PodCIDRs func() []netip.Prefix
	// PodBridge is the interface of the node's pods, which tells their traffic where PodCIDRs has no
	// range of the family.
	PodBridge string
	// ClusterCIDRs has the ranges of all pods, which tell their traffic where neither of the above
	// does. Where nothing tells it, all traffic to cluster IPs is masqueraded.
	ClusterCIDRs []netip.Prefix
	// ServiceCIDRs returns the ranges of cluster IPs. Traffic to an unused address in them is
	// dropped. Nil for none.
	ServiceCIDRs func() []netip.Prefix
	// NodePortAddresses selects the addresses that accept node ports: CIDRs, or "primary" for
	// NodeIPs, which is the default. 0.0.0.0/0 and ::/0 select every address but loopback.
	NodePortAddresses []string
	// HealthAddress is where /healthz and /livez are served; nowhere when empty.
	HealthAddress string
	// Local replaces the endpoints of all ports of a Service by one address of this node, as long as
	// the function returns a valid one. It is for kubernetes.default on a node without a route to the
	// apiservers. Pods must be able to reach the address, so it is no loopback address.
	Local map[types.NamespacedName]func() netip.AddrPort
	// Table is the name of the tables; DefaultTable when empty.
	Table string
	// Events records an Event about a Service or EndpointSlice; nobody does when nil.
	Events func(object runtime.Object, eventType, reason, message string)
	// MinSyncPeriod is the least time between two transactions under load; 100 ms when 0.
	MinSyncPeriod time.Duration
	// SyncPeriod is the time between two comparisons of the whole table with the kernel, whatever has
	// happened; 1 h when 0.
	SyncPeriod time.Duration
	// VerifyPeriod is the time between two checks for changes by others, which read the table only
	// when anything else has changed rules, and of the node's addresses; 30 s when 0.
	VerifyPeriod time.Duration
	// Logger logs; slog.Default when nil.
	Logger *slog.Logger
	// Registerer registers metrics with kube-proxy's names; none when nil.
	Registerer prometheus.Registerer

	// Netfilter and Flows open what reaches the kernel, in the goroutine that calls Run; the real
	// ones when nil.
	Netfilter func() (Netfilter, error)
	Flows     func() (Flows, error)
	// Addresses returns the addresses of the node's interfaces; those of the system when nil.
	Addresses func() ([]netip.Addr, error)
}

// Netfilter writes and reads the kernel's packet rules. Package nft has the real one.
type Netfilter interface {
	// Apply makes a change in one transaction.
	Apply(family ruleset.Family, table string, change *ruleset.Change) error
	// DeleteChains deletes chains that nothing names any more.
	DeleteChains(family ruleset.Family, table string, names []string) error
	// Read returns what a table has.
	Read(family ruleset.Family, table string) (*ruleset.Actual, error)
	// Unseen reports whether others have changed any rules since the last MarkSeen.
	Unseen() (bool, error)
	// MarkSeen forgets the changes by others so far.
	MarkSeen() error
	// Close ends the connection; the rules stay.
	Close() error
}

// Flows ends tracked connections. Package conntrack has the real one.
type Flows interface {
	// End ends stale UDP connections and returns their number.
	End(family ruleset.Family, stale *conntrack.Stale) (int, error)
	// Close ends the connection to the kernel.
	Close() error
}

func (c *Config) setDefaults() {
	c.Table = cmp.Or(c.Table, DefaultTable)
	c.MinSyncPeriod = cmp.Or(c.MinSyncPeriod, defaultMinSyncPeriod)
	c.SyncPeriod = cmp.Or(c.SyncPeriod, defaultSyncPeriod)
	c.VerifyPeriod = cmp.Or(c.VerifyPeriod, defaultVerifyPeriod)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Events == nil {
		c.Events = func(runtime.Object, string, string, string) {}
	}
	if c.Netfilter == nil {
		c.Netfilter = func() (Netfilter, error) { return nft.Open() }
	}
	if c.Flows == nil {
		c.Flows = func() (Flows, error) { return conntrack.Open() }
	}
	if c.Addresses == nil {
		c.Addresses = interfaceAddresses
	}
}

// families returns the families that get rules.
func (c *Config) families() []ruleset.Family {
	var found []ruleset.Family
	for _, family := range []ruleset.Family{ruleset.IPv4, ruleset.IPv6} {
		has := len(c.NodeIPs) == 0
		for _, addr := range c.NodeIPs {
			has = has || family.Is(addr.Unmap())
		}
		if has {
			found = append(found, family)
		}
	}
	return found
}
