// Package nodeproxy carries what only a node can provide from its agent to the client: the logs of
// containers, and connections to their processes and ports. Requests go over the bus, so that the node
// needs one outbound connection and no open port.
package nodeproxy
