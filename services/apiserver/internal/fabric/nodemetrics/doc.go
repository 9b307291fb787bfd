// Package nodemetrics measures what nodes and pods use, as metrics-server does: it asks the node agents for
// their stats over the bus and shows them as the objects of metrics.k8s.io.
//
// Nodes are asked only when a client reads. A node's answer counts for a while, only one question to a node is
// under way, and few nodes are asked at a time. A node is not trusted: it reports on itself and on the pods
// that are bound to it, in bounded answers with bounded values.
package nodemetrics
