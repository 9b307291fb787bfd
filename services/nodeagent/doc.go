// Package nodeagent is the service that makes the pods of one node run: it registers the
// node, follows the pods that are bound to it, drives the container runtime over CRI until
// what runs is what they ask for, and reports what it sees to the apiserver.
//
// Its pods come from the bus (only this node's), its writes and what its pods refer to
// (ConfigMaps, Secrets, tokens) go by the API client. It opens no port: logs are served over
// the bus.
//
// An agent that was killed recovers all it must know from the runtime, whose sandboxes and
// containers carry the pod's identity, so that nothing is started twice or left behind.
package nodeagent
