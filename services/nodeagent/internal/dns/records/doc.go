// Package records makes the records of a cluster's DNS zone from Services and EndpointSlices
// (Kubernetes' DNS specification, version 1.1). What the specification leaves open it decides as
// CoreDNS does: the names of endpoints without a hostname, names of pods from their address alone
// ("pods insecure"), and whether a name without records exists.
//
//	<service>.<ns>.svc.<zone>                   A, AAAA, SRV; CNAME of an external name
//	_<port>._<protocol>.<service>.<ns>.svc...   SRV, A, AAAA
//	<hostname>.<service>.<ns>.svc.<zone>        A, AAAA, SRV
//	<a-b-c-d>.<ns>.pod.<zone>                   A, AAAA
//	dns-version.<zone>                          TXT
//	<zone>                                      SOA, NS; ns.dns.<zone> A, AAAA
//	<address>.in-addr.arpa, .ip6.arpa           PTR
//
// An endpoint has records while it is ready. For Services with publishNotReadyAddresses the
// controllers say that all are.
package records
