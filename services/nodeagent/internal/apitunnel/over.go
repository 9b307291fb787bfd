package apitunnel

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/garboard/garboard/libs/bus/bushttp"
	"github.com/garboard/garboard/libs/nodeapi"
)

// Over returns how to connect with the HTTPS port of some apiserver by a transport over the bus. A file has the
// token that requests present.
func Over(transport http.RoundTripper, tokenFile string) func(ctx context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		token, err := os.ReadFile(tokenFile)
		if err != nil {
			return nil, fmt.Errorf("reading the token of the node's network parts: %w", err)
		}
		header := http.Header{"Authorization": {"Bearer " + strings.TrimSpace(string(token))}}
		conn, err := bushttp.Connect(ctx, transport, "http://apiserver"+nodeapi.TunnelPath, nodeapi.DialProtocol, header)
		if err != nil {
			return nil, fmt.Errorf("asking for a connection with an apiserver: %w", err)
		}
		return conn, nil
	}
}
