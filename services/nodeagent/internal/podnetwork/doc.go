// Package podnetwork connects the pods of a node with each other and with those of other nodes. It writes
// the configuration by which the container runtime's CNI plugins give each pod an address from the node's
// pod CIDRs, and leads traffic for other nodes' CIDRs there: by plain routes to nodes on the same link, in
// VXLAN packets to others. It masquerades what leaves the plane's pods for the world outside.
//
// What to do follows from the Nodes alone (Decide); the kernel is then brought to that state and kept there.
// Everything that the package adds to the kernel has a name, a protocol number or a table of its own, so that
// it touches nothing else, and removes what it no longer wants, also after a restart (Remove).
package podnetwork
