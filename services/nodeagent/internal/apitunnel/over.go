package apitunnel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/garboard/garboard/libs/bus/bushttp"
	"github.com/garboard/garboard/libs/nodeapi"
)

// maxRefusal is how much of an apiserver's refusal is read, in bytes.
const maxRefusal = 4 << 10

// Over returns how to connect with the HTTPS port of some apiserver by a transport over the bus. A file has the
// token that requests present.
func Over(transport http.RoundTripper, tokenFile string) func(ctx context.Context) (Conn, error) {
	return func(ctx context.Context) (Conn, error) {
		token, err := os.ReadFile(tokenFile)
		if err != nil {
			return nil, fmt.Errorf("reading the token of the node's network parts: %w", err)
		}
		life, cancel := context.WithCancel(ctx)
		conn, err := open(life, cancel, transport, strings.TrimSpace(string(token)))
		if err != nil {
			cancel()
			return nil, fmt.Errorf("asking for a connection with an apiserver: %w", err)
		}
		return conn, nil
	}
}

// open sends the request. cancel ends ctx, and is called when the connection is closed.
func open(ctx context.Context, cancel func(), transport http.RoundTripper, token string) (Conn, error) {
	late := time.AfterFunc(openTimeout, cancel)
	defer late.Stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://apiserver"+nodeapi.TunnelPath, nil)
	if err != nil {
		return nil, err
	}
	request.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {nodeapi.DialProtocol}, "Authorization": {"Bearer " + token}}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if conn, ok := response.Body.(bushttp.Conn); ok && response.StatusCode == http.StatusSwitchingProtocols {
		return &tunneled{Conn: conn, end: cancel}, nil
	}
	said, err := io.ReadAll(io.LimitReader(response.Body, maxRefusal))
	return nil, errors.Join(fmt.Errorf("the apiserver answered %s: %s", response.Status, strings.TrimSpace(string(said))), err, response.Body.Close())
}

// tunneled is a connection whose context ends with it.
type tunneled struct {
	bushttp.Conn
	end func()
}

// Close ends the connection.
func (t *tunneled) Close() error {
	defer t.end()
	return t.Conn.Close()
}
