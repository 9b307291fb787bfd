// Package dialing opens connections to NATS servers that are only on this machine, and such that are read with pauses.
package dialing

import "net"

// Dialer connects to a server.
type Dialer interface {
	Dial(network, address string) (net.Conn, error)
}
