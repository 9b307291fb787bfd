// Package rules computes the packet rules of the Service proxy. Both of its functions are pure:
// Compile turns one Service, its EndpointSlices and the node into a ruleset.Unit, and Skeleton
// returns the chains and sets that all Services share. What happens to a packet equals kube-proxy's
// nftables mode of Kubernetes 1.37; the names and the order of chains are our own.
//
// The path of a connection's first packet:
//
//	before-*        drop what load balancer source ranges refuse   (firewall-ips)
//	nat-*           send it to an endpoint                         (service-ips, service-nodeports)
//	filter-*        refuse it where there is none                  (absent-ips, absent-nodeports)
//	                and at the unused ports of cluster IPs         (cluster-ips)
//	nat-postrouting masquerade what is marked, and hairpins
//
// # Hostile input
//
// Compile trusts no field of its input. It refuses endpoints and external addresses that are
// loopback, link-local, multicast or unspecified, and says so in a Refusal. It bounds endpoints and
// source ranges. No name reaches the kernel except hashed, or sanitised in a comment.
package rules
