// Package relay passes bytes between two connections.
package relay

import (
	"errors"
	"io"
	"net"
	"sync"
)

// Both copies between two connections, in both directions, until each has ended. The end of one direction is passed
// on, so that the other goes on; an error ends both. said is what the client says: the client, or a reader that has some
// of it already. The caller closes the connections, which ends Both, too.
func Both(server, client net.Conn, said io.Reader) {
	var directions sync.WaitGroup
	copyOne := func(to net.Conn, from io.Reader) {
		if _, err := io.Copy(to, from); err != nil {
			_ = errors.Join(server.Close(), client.Close()) // Neither direction is of use without the other.
			return
		}
		if half, ok := to.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
			_ = to.Close()
		}
	}
	directions.Go(func() { copyOne(server, said) })
	directions.Go(func() { copyOne(client, server) })
	directions.Wait()
}
