package dialing

import (
	"net"
	"time"

	"github.com/garboard/garboard/libs/pausing"
)

// Pausing opens connections of which a read begins at least Pause after the one before, while little arrives at a time.
type Pausing struct {
	Dialer
	Pause time.Duration
}

// Dial connects to address.
func (d Pausing) Dial(network, address string) (net.Conn, error) {
	conn, err := d.Dialer.Dial(network, address)
	if err != nil {
		return nil, err
	}
	return pausing.New(conn, d.Pause), nil
}
