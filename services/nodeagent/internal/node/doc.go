// Package node represents the machine as a Node of the API: it registers the Node, reports its
// capacity and conditions, and renews its Lease. Others judge by the age of the Lease whether the
// node is alive.
package node
