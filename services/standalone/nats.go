package standalone

import (
	"fmt"
	"net"
	"strconv"

	"github.com/garboard/garboard/libs/bus/embedded"
	"github.com/garboard/garboard/services/apiserver"
)

// listenNATS makes the embedded NATS accept connections from other programs. They must use TLS:
// clients present their certificates there, and the traffic must not be readable in transit.
func (c Config) listenNATS(certs string, server *embedded.Config) error {
	if c.NATSListen == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(c.NATSListen)
	if err == nil {
		if host == "" {
			host = "0.0.0.0"
		}
		server.Host = host
		server.Port, err = strconv.Atoi(port)
	}
	if err != nil {
		return fmt.Errorf("--nats-listen %q: %w", c.NATSListen, err)
	}
	if server.TLS, err = apiserver.BusTLS(certs, host); err != nil {
		return fmt.Errorf("creating the certificate for the embedded NATS: %w", err)
	}
	return nil
}
