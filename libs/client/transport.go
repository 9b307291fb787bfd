package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"syscall"

	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bushttp"
	"github.com/garboard/garboard/libs/scheme"
)

// Transport says what carries a client's calls.
type Transport string

const (
	// TransportHTTP is HTTPS to the apiserver's address. It is the cheapest for large answers.
	TransportHTTP Transport = "http"
	// TransportNATS is NATS: the program needs no connection but that one, and any apiserver
	// takes a call. The user must have a bearer token.
	TransportNATS Transport = "nats"
	// TransportAuto is NATS, and HTTPS as long as NATS or the apiservers there are away; only
	// HTTPS for a user without a bearer token.
	TransportAuto Transport = "auto"
)

// Check says what is wrong with a transport's name; nil for that of a transport, or none.
func (c Transport) Check() error {
	switch c {
	case "", TransportHTTP, TransportNATS, TransportAuto:
		return nil
	}
	return fmt.Errorf("%q carries no API calls: it is %s, %s or %s", string(c), TransportHTTP, TransportNATS, TransportAuto)
}

// Connect is New for a client whose calls are carried by what by says, HTTPS if it is empty.
// conn, which must outlive the client, is not needed for HTTPS. To end the client call end.
func Connect(ctx context.Context, config *rest.Config, table *scheme.Table, by Transport, conn *bus.Conn, log *slog.Logger) (api *HTTP, end func(), err error) {
	config, end, err = WithTransport(ctx, config, by, conn, log)
	if err != nil {
		return nil, nil, err
	}
	api, err = New(config, table)
	if err != nil {
		end()
		return nil, nil, err
	}
	return api, end, nil
}

// WithTransport is config with its calls carried by what by says. Any client may be made of it.
func WithTransport(ctx context.Context, config *rest.Config, by Transport, conn *bus.Conn, log *slog.Logger) (carried *rest.Config, end func(), err error) {
	if err := by.Check(); err != nil {
		return nil, nil, err
	}
	bearer := config != nil && (config.BearerToken != "" || config.BearerTokenFile != "")
	if by == "" || by == TransportHTTP || by == TransportAuto && !bearer {
		return config, func() {}, nil
	}
	if !bearer {
		return nil, nil, errors.New("carrying API calls over NATS: the user has no bearer token, and client certificates do not exist there")
	}
	over, err := bushttp.New(ctx, bushttp.Config{Conn: conn, Logger: log})
	if err != nil {
		return nil, nil, err
	}
	var transport http.RoundTripper = over
	if by == TransportAuto {
		// Who calls is told by what goes around the transport.
		https, err := rest.TransportFor(rest.AnonymousClientConfig(config))
		if err != nil {
			over.Close()
			return nil, nil, fmt.Errorf("carrying API calls: %w", err)
		}
		transport = either{over, https}
	}
	return Over(config, transport), over.Close, nil
}

// Over is config with its calls carried by transport: nothing of how config reaches the
// apiserver is used, only who calls it.
func Over(config *rest.Config, transport http.RoundTripper) *rest.Config {
	c := rest.CopyConfig(config)
	c.TLSClientConfig, c.Dial, c.Proxy, c.Transport = rest.TLSClientConfig{}, nil, nil, transport
	if c.Host == "" {
		c.Host = "https://kubernetes.default.svc"
	}
	return c
}

// either sends requests by second that first has refused.
type either struct{ first, second http.RoundTripper }

// RoundTrip sends a request. What first may have done is not done again.
func (e either) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := e.first.RoundTrip(r)
	if err == nil || !errors.Is(err, syscall.ECONNREFUSED) || r.Context().Err() != nil {
		return answer, err
	}
	again := r.Clone(r.Context())
	if r.Body != nil && r.Body != http.NoBody {
		if r.GetBody == nil {
			return nil, err
		}
		body, problem := r.GetBody()
		if problem != nil {
			return nil, errors.Join(err, problem)
		}
		again.Body = body
	}
	answer, problem := e.second.RoundTrip(again)
	if problem != nil {
		return nil, fmt.Errorf("%w; and over HTTPS: %w", err, problem)
	}
	return answer, nil
}
