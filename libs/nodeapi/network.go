package nodeapi

// The service account as which the network parts of a node agent (pod network, Service proxy, DNS) read the
// plane. Each node agent obtains tokens of it that are bound to its own Node. The account may read Services,
// EndpointSlices and Nodes (the ClusterRole system:node-proxier), which the node's own identity may not.
const (
	NetworkAccountNamespace = "kube-system"
	NetworkAccount          = "node-network"
)

// TunnelPath is where an apiserver upgrades a connection over the bus to one to its own HTTPS port, by the
// protocol DialProtocol. So pods reach the API on nodes that reach nothing but the bus. The network account may.
const TunnelPath = "/garboard/tunnel"

// The Service at whose address node agents answer DNS questions: the tenth address of the range of Services.
// Names and ports are those of every Kubernetes installer.
const (
	DNSServiceNamespace = "kube-system"
	DNSService          = "kube-dns"
	DNSServiceIndex     = 10
	DNSPort             = 53
	DNSMetricsPort      = 9153
)

// Conditions of Nodes that node agents write, besides Kubernetes' own.
const (
	// PeersReachable tells whether packets of the node's pods reach other nodes. A node without the agent's pod
	// network does not have it.
	PeersReachable = "garboard.io/PodNetworkPeersReachable"
	// NetworkPartsReady tells whether those network parts that are switched on are ready.
	NetworkPartsReady = "garboard.io/NetworkPartsReady"
)
