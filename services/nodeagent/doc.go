// Package nodeagent is the service that runs the pods of one node. It registers the node, watches
// the pods bound to it, drives the container runtime over CRI until the running containers match
// the pods' specs, and reports their status to the apiserver.
//
// It receives its pods (only this node's) from the bus. Its writes, and its reads of the objects
// that pods refer to (ConfigMaps, Secrets, tokens), use the API client. It opens no port: logs are
// served over the bus.
//
// After a crash the agent recovers everything it must know from the runtime: sandboxes and
// containers carry the pod's identity. It therefore starts nothing twice and leaves nothing behind.
package nodeagent
