package aggregation

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"time"

	"k8s.io/client-go/transport"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/garboard/garboard/services/apiserver/internal/fabric/endpoints"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
)

const (
	// defaultPort is the port of a Service without one.
	defaultPort = 443
	// maxHeaders is the size of the largest header of an answer, in bytes; Go's default.
	maxHeaders = 1 << 20
	// Connections to one server that wait for requests, for how long, and how long a handshake may take. The
	// values are client-go's.
	idleConnections = 25
	idleTime        = 90 * time.Second
	handshakeTime   = 10 * time.Second
)

// aggregatorUser is the user as which the apiserver itself asks other servers, and its group.
const aggregatorUser, masters = "system:kube-aggregator", "system:masters"

// remote is an API that the endpoints of a Service serve.
type remote struct {
	cfg       Config
	name      string // of the APIService
	spec      apiregistrationv1.APIServiceSpec
	transport *http.Transport
}

// newRemote returns the API of an APIService, which has a Service. Its error says what is wrong with it.
func newRemote(cfg Config, of *apiregistrationv1.APIService) (*remote, error) {
	service := of.Spec.Service
	secured := &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: service.Name + "." + service.Namespace + ".svc",
		InsecureSkipVerify: of.Spec.InsecureSkipTLSVerify, //nolint:gosec // The APIService asks for it.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return cfg.Certificate()
		},
	}
	if bundle := of.Spec.CABundle; len(bundle) > 0 {
		secured.RootCAs = x509.NewCertPool()
		if !secured.RootCAs.AppendCertsFromPEM(bundle) {
			return nil, errors.New("unable to load root certificates: unable to parse bytes as PEM block")
		}
	}
	return &remote{cfg: cfg, name: of.Name, spec: of.Spec, transport: &http.Transport{
		TLSClientConfig: secured, DialContext: cfg.Dial, ForceAttemptHTTP2: true, DisableCompression: true,
		MaxIdleConnsPerHost: idleConnections, IdleConnTimeout: idleTime, TLSHandshakeTimeout: handshakeTime,
		MaxResponseHeaderBytes: maxHeaders,
	}}, nil
}

// resolve returns an endpoint of the Service.
func (r *remote) resolve(ctx context.Context) (endpoints.Endpoint, error) {
	return r.cfg.Resolver.Resolve(ctx, r.spec.Service.Namespace, r.spec.Service.Name, r.port())
}

func (r *remote) port() int32 {
	if r.spec.Service.Port == nil {
		return defaultPort
	}
	return *r.spec.Service.Port
}

// answer is what a server answers to a request of the apiserver itself.
type answer struct {
	code   int
	header http.Header
	body   []byte
}

// get asks a server, as the aggregator itself. It reads at most most bytes; a larger body is an error.
func (r *remote) get(ctx context.Context, path string, header http.Header, most int64) (answer, error) {
	endpoint, err := r.resolve(ctx)
	if err != nil {
		return answer{}, fmt.Errorf("finding an endpoint of %s: %w", r.name, err)
	}
	to := url.URL{Scheme: "https", Host: endpoint.Address, Path: path}
	request, err := http.NewRequestWithContext(endpoints.With(ctx, endpoint), http.MethodGet, to.String(), nil)
	if err != nil {
		return answer{}, fmt.Errorf("asking for %s: %w", to.String(), err)
	}
	maps.Copy(request.Header, header)
	transport.SetAuthProxyHeaders(request, aggregatorUser, "", []string{masters}, nil)
	response, err := r.transport.RoundTrip(request)
	if err != nil {
		r.transport.CloseIdleConnections() // The next attempt must not meet the same broken connection.
		return answer{}, fmt.Errorf("failing or missing response from %s: %w", to.String(), err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, most+1))
	switch {
	case err != nil:
		return answer{}, fmt.Errorf("failing or missing response from %s: %w", to.String(), err)
	case int64(len(body)) > most:
		return answer{}, fmt.Errorf("the response from %s has more than %d bytes", to.String(), most)
	}
	return answer{response.StatusCode, response.Header, body}, nil
}

// asUser adds who the user is to each request. It does so after the proxy has removed headers that a client
// declared to be between the client and the proxy only.
type asUser struct {
	user authn.User
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (a asUser) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	SetUser(request, a.user)
	return a.next.RoundTrip(request)
}

// SetUser replaces what a request says about its user.
func SetUser(request *http.Request, user authn.User) {
	transport.SetAuthProxyHeaders(request, user.Name, user.UID, user.Groups, user.Extra)
}

// Dial connects to an address, like net.Dialer's DialContext. The endpoint is in the context (endpoints.With).
type Dial func(ctx context.Context, network, address string) (net.Conn, error)
