// Package nodeapi is what an apiserver may ask of a node agent, and how the answer looks: the only
// contract between the two services. Both travel over the bus, at bus.NodeSubject(node, service),
// since a node has no open port.
package nodeapi
