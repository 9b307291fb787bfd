// Package proxy makes Services work on a node, as kube-proxy does in its nftables mode: it keeps the
// kernel's packet rules in step with Services and EndpointSlices. One table per IP family holds all
// rules; maps lead from an address to a Service's chain, so that a packet's cost does not depend on
// the number of Services.
//
// A change of a Service or of its slices marks the Service. The loop compiles the marked Services
// (package rules), merges the result into the wanted state (package ledger), and writes the
// difference to the kernel in one transaction (package nft). So the cost of a change depends on the
// Service that changed alone. The loop acts at once when it was idle, and at most every
// Config.MinSyncPeriod under load; several changes of a Service in between are one.
//
// The table outlives the agent. On start, and whenever something else has changed rules, the loop
// reads the table and writes only what differs; open connections and session affinity stay. A
// Service whose rules the kernel refuses holds up no other.
package proxy
