package webhook

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/garboard/garboard/services/apiserver/internal/fabric/endpoints"
	"github.com/garboard/garboard/services/apiserver/internal/http/body"
)

// maxHeaders is the size of the largest header of an answer that is read, in bytes.
const maxHeaders = 64 << 10

// Resolver finds where a Service is served.
type Resolver interface {
	// Resolve returns one ready endpoint of a Service's port. Its errors are API errors.
	Resolve(ctx context.Context, namespace, name string, port int32) (endpoints.Endpoint, error)
}

// Dial connects to an address, like net.Dialer's DialContext. A nil Dial stands for that.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// resolving sends each request to an endpoint of a Service, so that a change of endpoints counts at
// once. Connections are reused by endpoint.
type resolving struct {
	next     http.RoundTripper
	resolver Resolver
	service  Service
}

func (r resolving) RoundTrip(request *http.Request) (*http.Response, error) {
	endpoint, err := r.resolver.Resolve(request.Context(), r.service.Namespace, r.service.Name, r.service.port())
	if err != nil {
		return nil, err //nolint:wrapcheck // The texts are Kubernetes'.
	}
	resolved := request.Clone(endpoints.With(request.Context(), endpoint))
	if resolved.Host == "" {
		resolved.Host = request.URL.Host
	}
	resolved.URL.Host = endpoint.Address
	return r.next.RoundTrip(resolved) //nolint:wrapcheck // The texts are Kubernetes'.
}

// bounded fails the reading of an answer that is too large, and ends that of one that is nested too deep to be decoded.
type bounded struct {
	next http.RoundTripper
	max  int // bytes
}

func (b bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(request)
	if err != nil {
		return nil, err //nolint:wrapcheck // The texts are Kubernetes'.
	}
	response.Body = &limitedBody{from: body.Shallow(response.Body), Closer: response.Body, left: b.max, max: b.max}
	return response, nil
}

// limitedBody returns an error after left bytes.
type limitedBody struct {
	io.Closer
	from      io.Reader
	left, max int
}

func (l *limitedBody) Read(into []byte) (int, error) {
	if l.left < 0 {
		return 0, fmt.Errorf("the answer has more than %d bytes", l.max)
	}
	// One byte more than allowed tells a full answer from one that is too large.
	n, err := l.from.Read(into[:min(len(into), l.left+1)])
	l.left -= n
	if l.left < 0 {
		return 0, fmt.Errorf("the answer has more than %d bytes", l.max)
	}
	return n, err //nolint:wrapcheck // io.EOF must stay itself.
}
