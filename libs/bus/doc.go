// Package bus is the plane's nervous system: a connection to NATS that never gives up, the
// grammar of its subjects, publish and subscribe, the log of watch messages in JetStream, and
// answers that are streams of bytes. It is the only package that knows NATS.
//
// NATS carries and is never asked what is true. Nothing here promises that a message arrives:
// whoever needs every message recognises a gap by itself, as package follow does, or fails
// with a clear error, as a stream does.
package bus
