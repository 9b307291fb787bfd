// Package bus is the control plane's messaging layer. It provides a connection to NATS that
// reconnects forever, publish and subscribe, and the log of watch messages in JetStream. Package
// subject is the grammar of its subjects, and package bushttp sends over it what does not fit into one
// message. No package outside this folder knows NATS.
//
// NATS is a transport, never a source of truth. Nothing here promises that a message arrives. A
// subscriber that needs every message detects a gap itself, as package fabricsource does, or fails
// with a clear error, as package bushttp does.
package bus
