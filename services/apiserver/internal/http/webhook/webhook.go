// Package webhook calls webhooks: HTTPS servers of users that answer one JSON document with another.
// A webhook is named by a URL, or by a Service, whose ready endpoints are then called in turn.
package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

const (
	// defaultPort is the port of a Service without one.
	defaultPort = 443
	// defaultMaxAnswer is the size of the largest answer that is read by default, in bytes. A patch that
	// replaces the largest object has less.
	defaultMaxAnswer = 8 << 20
	// Connections to one server that wait for calls, and for how long. The values are client-go's.
	idleConnections = 25
	idleTime        = 90 * time.Second
	dialTime        = 30 * time.Second
	handshakeTime   = 10 * time.Second
)

// Target names a webhook: by URL, or by Service.
type Target struct {
	// URL is the address; empty if Service is set.
	URL string
	// Service has the webhook's endpoints; nil if URL is set.
	Service *Service
	// CABundle holds PEM certificates that verify the server's; the system's do if it is empty.
	CABundle []byte
}

// Service is a webhook's Service.
type Service struct {
	Namespace, Name string
	// Path is the path of the request's URL; it may be empty.
	Path string
	// Port is the port of the Service; 443 if it is 0.
	Port int32
}

// host returns the name in the server's certificate.
func (s *Service) host() string { return s.Name + "." + s.Namespace + ".svc" }

func (s *Service) port() int32 {
	if s.Port == 0 {
		return defaultPort
	}
	return s.Port
}

// key identifies what shares connections.
type key struct {
	url, namespace, service, path string
	port                          int32
	bundle                        string
}

func (t Target) key() key {
	k := key{url: t.URL, bundle: string(t.CABundle)}
	if s := t.Service; s != nil {
		k.namespace, k.service, k.path, k.port = s.Namespace, s.Name, s.Path, s.port()
	}
	return k
}

// Config configures Clients. Documents, Versions, Resolver and UserAgent are required.
type Config struct {
	// Documents is a scheme of the documents that are sent and received, in the API versions that
	// Versions lists.
	Documents *runtime.Scheme
	Versions  runtime.GroupVersioner
	// Resolver finds the endpoints of Services.
	Resolver Resolver
	// Dial connects to the endpoints of Services, which are in the context (endpoints.With), and to the hosts
	// of URLs.
	Dial Dial
	// Credentials tell webhooks who calls them; it may be nil.
	Credentials *Credentials
	// UserAgent names the caller.
	UserAgent string
	// Proxy returns the proxy for a request to a URL; http.ProxyFromEnvironment if nil, as in
	// Kubernetes. Services are always called directly.
	Proxy func(*http.Request) (*url.URL, error)
	// MaxAnswer is the size of the largest answer that is read, in bytes; 8 MiB if 0.
	MaxAnswer int
}

// Clients holds a client, with its open connections, for each webhook that is in use. Any goroutine
// may use it.
type Clients struct {
	cfg   Config
	coder runtime.NegotiatedSerializer

	mu    sync.Mutex
	known map[key]*Client
}

// New returns clients that hold none yet.
func New(cfg Config) *Clients {
	cfg = cfg.defaulted()
	return &Clients{cfg: cfg, known: map[key]*Client{}, coder: cfg.coder()}
}

func (c Config) defaulted() Config {
	if c.Proxy == nil {
		c.Proxy = http.ProxyFromEnvironment
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Timeout: dialTime, KeepAlive: dialTime}).DialContext
	}
	if c.MaxAnswer == 0 {
		c.MaxAnswer = defaultMaxAnswer
	}
	return c
}

// coder returns what encodes and decodes the documents.
func (c Config) coder() runtime.NegotiatedSerializer {
	codecs := serializer.NewCodecFactory(c.Documents)
	info, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	codec := codecs.CodecForVersions(info.Serializer, info.Serializer, c.Versions, runtime.InternalGroupVersioner)
	return serializer.NegotiatedSerializerWrapper(runtime.SerializerInfo{Serializer: codec})
}

// Client calls one webhook.
type Client struct {
	rest      *rest.RESTClient
	transport *http.Transport
	agent     string
}

// Client returns the client of a webhook. Its errors say what is wrong with the target.
func (c *Clients) Client(target Target) (*Client, error) {
	k := target.key()
	c.mu.Lock()
	defer c.mu.Unlock()
	if client := c.known[k]; client != nil {
		return client, nil
	}
	client, err := c.newClient(target)
	if err != nil {
		return nil, err
	}
	c.known[k] = client
	return client, nil
}

// Keep forgets the clients of all webhooks but those of targets, and closes their connections.
func (c *Clients) Keep(targets []Target) {
	wanted := map[key]bool{}
	for _, target := range targets {
		wanted[target.key()] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, client := range c.known {
		if !wanted[k] {
			delete(c.known, k)
			client.transport.CloseIdleConnections()
		}
	}
}

// Close forgets all clients, and closes their connections. No call may be under way.
func (c *Clients) Close() { c.Keep(nil) }

// Call sends a document and decodes the answer into another. ctx bounds the call. The server learns
// the time that it has from the parameter timeout. The errors of the server are API errors.
func (c *Client) Call(ctx context.Context, document, answer runtime.Object) error {
	request := c.rest.Post().SetHeader("User-Agent", c.agent).Body(document)
	if deadline, ok := ctx.Deadline(); ok {
		if left := time.Until(deadline); left > 0 {
			request.Timeout((left + time.Second - 1).Truncate(time.Second))
		}
	}
	err := request.Do(ctx).Into(answer)
	if late := ctx.Err(); err != nil && late != nil && !errors.Is(err, late) {
		// Where in the answer its end was noticed says nothing about the server.
		return fmt.Errorf("%w: %w", late, err)
	}
	return err //nolint:wrapcheck // The texts are Kubernetes'.
}

func (c *Clients) newClient(target Target) (*Client, error) {
	config := &rest.Config{QPS: -1, WarningHandler: rest.NoWarnings{}}
	config.NegotiatedSerializer, config.ContentType = c.coder, runtime.ContentTypeJSON
	secured := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if len(target.CABundle) > 0 {
		secured.RootCAs = x509.NewCertPool()
		if !secured.RootCAs.AppendCertsFromPEM(target.CABundle) {
			return nil, errors.New("unable to load root certificates: unable to parse bytes as PEM block")
		}
	}
	transport := newTransport(secured, c.cfg.Dial)
	var round http.RoundTripper = bounded{transport, c.cfg.MaxAnswer}
	switch s := target.Service; {
	case s != nil:
		secured.ServerName = s.host()
		config.Host = "https://" + net.JoinHostPort(s.host(), strconv.Itoa(int(s.port())))
		config.APIPath = s.Path
		round = resolving{next: round, resolver: c.cfg.Resolver, service: *s}
	case target.URL == "":
		return nil, errors.New("webhook configuration must have either service or URL")
	default:
		u, err := url.Parse(target.URL)
		if err != nil {
			return nil, fmt.Errorf("Unparsable URL: %w", err) //nolint:staticcheck // The text is Kubernetes'.
		}
		config.Host, config.APIPath = u.Scheme+"://"+u.Host, u.Path
		transport.Proxy = c.cfg.Proxy
	}
	round, err := c.cfg.Credentials.present(hostPort(config.Host), secured, round)
	if err != nil {
		return nil, err
	}
	return c.cfg.connect(config, transport, round)
}

// newTransport returns the connections of a client. One carries one call at a time, so that calls
// spread over the endpoints of a Service.
func newTransport(secured *tls.Config, dial Dial) *http.Transport {
	return &http.Transport{
		TLSClientConfig: secured, DialContext: dial,
		TLSHandshakeTimeout: handshakeTime, MaxIdleConnsPerHost: idleConnections, IdleConnTimeout: idleTime,
		MaxResponseHeaderBytes: maxHeaders,
	}
}

// connect returns a client that calls the server of config by way of round, whose connections are
// transport's.
func (c Config) connect(config *rest.Config, transport *http.Transport, round http.RoundTripper) (*Client, error) {
	client, err := rest.UnversionedRESTClientForConfigAndClient(config, &http.Client{
		Transport: round,
		// A redirect would send the object to a server that nobody has configured.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	})
	if err != nil {
		return nil, err //nolint:wrapcheck // The texts are Kubernetes'.
	}
	return &Client{rest: client, transport: transport, agent: c.UserAgent}, nil
}
