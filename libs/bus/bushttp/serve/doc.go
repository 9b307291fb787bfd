// Package serve passes requests that come over NATS to an http.Handler: those of all clients to the API, or
// those of the apiservers to the agent of a node. Package bushttp is the callers' end, and describes the
// protocol.
package serve
