package nodeapi

// The service account as which the network parts of a node agent (pod network, Service proxy, DNS) read the
// plane. Each node agent obtains tokens of it that are bound to its own Node. The account may read Services,
// EndpointSlices and Nodes (the ClusterRole system:node-proxier), which the node's own identity may not.
const (
	NetworkAccountNamespace = "kube-system"
	NetworkAccount          = "node-network"
)

// The Service at whose address node agents answer DNS questions: the tenth address of the range of Services.
// Names and ports are those of every Kubernetes installer.
const (
	DNSServiceNamespace = "kube-system"
	DNSService          = "kube-dns"
	DNSServiceIndex     = 10
	DNSPort             = 53
	DNSMetricsPort      = 9153
)
