package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bushttp"
	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/libs/pausing"
	"github.com/garboard/garboard/libs/scheme"
)

// Transport names the transport of a client's calls.
type Transport string

const (
	// TransportHTTP is HTTPS to the apiserver's address. It is the cheapest for large responses.
	TransportHTTP Transport = "http"
	// TransportNATS is NATS: the program needs no other connection, and any apiserver may serve a
	// call. The user must have a bearer token, or the certificate that the connection to NATS presents.
	TransportNATS Transport = "nats"
	// TransportAuto is NATS, with HTTPS as the fallback while NATS or the apiservers on it are
	// unavailable. A user whom NATS does not know always uses HTTPS.
	TransportAuto Transport = "auto"
)

// unreachedPause is how long calls do not wait for NATS after one has waited in vain.
const unreachedPause = 10 * time.Second

// dialTimeout and keepAlive are client-go's of connections to apiservers.
const dialTimeout, keepAlive = 30 * time.Second, 30 * time.Second

// Route is what carries a client's calls.
type Route struct {
	// By is the transport; HTTPS if it is empty.
	By Transport
	// Conn is the connection to NATS, which must outlive the client; it may be nil for HTTPS.
	Conn *bus.Conn
	// Certified means that Conn presents the client's certificate, so that the calls need no credential of
	// their own; see Certified.
	Certified bool
	// ReadPause is the least time between two reads from an apiserver by HTTPS, while little arrives at a time; 0 means
	// none. Many calls at a time are answered at once then, which costs each up to ReadPause and saves CPU. A call after
	// a rest costs nothing.
	ReadPause time.Duration
}

// Check returns an error if c is not the name of a transport and not empty.
func (c Transport) Check() error {
	switch c {
	case "", TransportHTTP, TransportNATS, TransportAuto:
		return nil
	}
	return fmt.Errorf("%q is not a transport for API calls: want %s, %s or %s", string(c), TransportHTTP, TransportNATS, TransportAuto)
}

// Connect is New for a client whose calls take a route. The caller must call end to shut the client down.
func Connect(ctx context.Context, config *rest.Config, table *scheme.Table, route Route,
	log *slog.Logger) (api *HTTP, end func(), err error) {
	config, end, err = WithTransport(ctx, config, route, log)
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

// WithTransport returns config with its calls sent by a route. Any client may use it.
func WithTransport(ctx context.Context, config *rest.Config, route Route, log *slog.Logger) (carried *rest.Config, end func(), err error) {
	by, conn := route.By, route.Conn
	if err := by.Check(); err != nil {
		return nil, nil, err
	}
	bearer := config != nil && (config.BearerToken != "" || config.BearerTokenFile != "")
	if by == "" || by == TransportHTTP || by == TransportAuto && !bearer && !route.Certified {
		return paused(config, route.ReadPause)
	}
	if !bearer && !route.Certified {
		return nil, nil, errors.New("sending API calls over NATS: the user has neither a bearer token nor a certificate that the connection to NATS presents")
	}
	over, err := bushttp.New(ctx, bushttp.Config{Conn: conn, Logger: log})
	if err != nil {
		return nil, nil, err
	}
	var transport http.RoundTripper = &identified{next: over, conn: conn, certified: !bearer}
	if by == TransportAuto && config.Host != "" {
		https, err := rest.TransportFor(bare(config, bearer))
		if err != nil {
			over.Close()
			return nil, nil, fmt.Errorf("sending API calls: %w", err)
		}
		transport = either{transport, https}
	}
	return Over(config, transport), over.Close, nil
}

// paused returns config with one transport for all of its calls, whose reads pause. A config that says itself how to
// connect stays as it is.
func paused(config *rest.Config, pause time.Duration) (carried *rest.Config, end func(), err error) {
	if pause <= 0 || config == nil || config.Transport != nil || config.Dial != nil ||
		config.ExecProvider != nil || config.AuthProvider != nil || !strings.HasPrefix(config.Host, "https://") {
		return config, func() {}, nil
	}
	own := bare(config, false)                    // With the certificate, if there is one beside the token.
	own.BearerToken, own.BearerTokenFile = "", "" // The wrappers of the result add it.
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}
	own.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return pausing.New(conn, pause), nil
	}
	transport, err := rest.TransportFor(own)
	if err != nil {
		return nil, nil, fmt.Errorf("sending API calls: %w", err)
	}
	return Over(config, transport), func() { utilnet.CloseIdleConnectionsFor(transport) }, nil
}

// bare returns config for the transport below the wrappers, which add the bearer token.
func bare(config *rest.Config, bearer bool) *rest.Config {
	if bearer {
		return rest.AnonymousClientConfig(config)
	}
	config = rest.CopyConfig(config)
	config.WrapTransport = nil
	return config
}

// identified sends requests over NATS once it has identified the client, and says why it cannot.
type identified struct {
	next http.RoundTripper
	conn *bus.Conn
	// certified means that requests have no credential of their own.
	certified bool

	mu   sync.Mutex
	skip time.Time // until then a request does not wait for the connection
}

// RoundTrip sends a request, or returns an error that is syscall.ECONNREFUSED.
func (n *identified) RoundTrip(r *http.Request) (*http.Response, error) {
	why := n.refusal()
	if why == nil {
		var answer *http.Response
		if answer, why = n.next.RoundTrip(r); why == nil || !errors.Is(why, syscall.ECONNREFUSED) {
			return answer, why
		}
		n.mu.Lock()
		if !n.conn.Connected() {
			n.skip = time.Now().Add(unreachedPause)
		}
		n.mu.Unlock()
	} else if r.Body != nil {
		_ = r.Body.Close() // A RoundTripper must close it, also on errors.
	}
	if lost := n.conn.Lost(); lost != nil {
		why = fmt.Errorf("%w: %w", lost, why)
	}
	return nil, why
}

// refusal returns why a request cannot be sent; nil if it may be tried.
func (n *identified) refusal() error {
	if !n.conn.Connected() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if time.Now().Before(n.skip) {
			return fmt.Errorf("calling over NATS: %w", syscall.ECONNREFUSED)
		}
		return nil // The connection may be back in a moment.
	}
	if n.certified && n.conn.Client().Identity == subject.NoIdentity {
		return fmt.Errorf("calling over NATS: it does not authenticate its clients: %w", syscall.ECONNREFUSED)
	}
	return nil
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
