// Package nodeapi defines the requests of an apiserver to a node agent, and their responses: the
// only contract between the two services. Both travel over the bus, at subject.Node(node,
// service), since a node has no open port.
package nodeapi
