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

// Transport names the transport of a client's calls.
type Transport string

const (
	// TransportHTTP is HTTPS to the apiserver's address. It is the cheapest for large responses.
	TransportHTTP Transport = "http"
	// TransportNATS is NATS: the program needs no other connection, and any apiserver may serve a
	// call. The user must have a bearer token.
	TransportNATS Transport = "nats"
	// TransportAuto is NATS, with HTTPS as the fallback while NATS or the apiservers on it are
	// unavailable. A user without a bearer token always uses HTTPS.
	TransportAuto Transport = "auto"
)

// Check returns an error if c is not the name of a transport and not empty.
func (c Transport) Check() error {
	switch c {
	case "", TransportHTTP, TransportNATS, TransportAuto:
		return nil
	}
	return fmt.Errorf("%q is not a transport for API calls: want %s, %s or %s", string(c), TransportHTTP, TransportNATS, TransportAuto)
}

// Connect is New for a client with the transport by; HTTPS if it is empty. conn must outlive the
// client and may be nil for HTTPS. The caller must call end to shut the client down.
func Connect(ctx context.Context, config *rest.Config, table *scheme.Table, by Transport, conn *bus.Conn,
	log *slog.Logger) (api *HTTP, end func(), err error) {
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

// WithTransport returns config with its calls sent over the transport by. Any client may use it.
func WithTransport(ctx context.Context, config *rest.Config, by Transport, conn *bus.Conn,
	log *slog.Logger) (carried *rest.Config, end func(), err error) {
	if err := by.Check(); err != nil {
		return nil, nil, err
	}
	bearer := config != nil && (config.BearerToken != "" || config.BearerTokenFile != "")
	if by == "" || by == TransportHTTP || by == TransportAuto && !bearer {
		return config, func() {}, nil
	}
	if !bearer {
		return nil, nil, errors.New("sending API calls over NATS: the user has no bearer token, and NATS does not support client certificates here")
	}
	over, err := bushttp.New(ctx, bushttp.Config{Conn: conn, Logger: log})
	if err != nil {
		return nil, nil, err
	}
	var transport http.RoundTripper = over
	if by == TransportAuto {
		// The wrappers around the transport add the credentials.
		https, err := rest.TransportFor(rest.AnonymousClientConfig(config))
		if err != nil {
			over.Close()
			return nil, nil, fmt.Errorf("sending API calls: %w", err)
		}
		transport = either{over, https}
	}
	return Over(config, transport), over.Close, nil
}

// Over returns a copy of config whose calls go over transport. It keeps config's credentials and
// drops its settings for reaching the apiserver.
func Over(config *rest.Config, transport http.RoundTripper) *rest.Config {
	c := rest.CopyConfig(config)
	c.TLSClientConfig, c.Dial, c.Proxy, c.Transport = rest.TLSClientConfig{}, nil, nil, transport
	if c.Host == "" {
		c.Host = "https://kubernetes.default.svc"
	}
	return c
}

// either sends a request by second if first refused it.
type either struct{ first, second http.RoundTripper }

// RoundTrip sends a request. It does not repeat a request that first may have executed.
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
