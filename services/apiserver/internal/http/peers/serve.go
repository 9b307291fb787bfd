package peers

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/services/apiserver/internal/http/aggregation"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
)

const (
	// passedOn marks a request that a peer has passed on, and that is to be served here or not at all. The name
	// is kube-apiserver's.
	passedOn = "X-Kubernetes-Peer-Proxied"
	// ownDiscovery asks for what a server serves without its peers (client-go, AcceptV2NoPeer).
	ownDiscovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer"
	ownProfile   = "profile=nopeer"
	// serverUser is the user as which an apiserver asks its peers, and its group.
	serverUser, masters = "system:apiserver", "system:masters"
	// maxDocument is the size of the largest discovery document that is read, in bytes. That of all of
	// Kubernetes' kinds has a tenth of it.
	maxDocument = 4 << 20
)

// AsksForOwn reports whether a request of discovery asks for what this server serves without its peers.
func AsksForOwn(r *http.Request) bool {
	for _, accept := range r.Header.Values("Accept") {
		if strings.Contains(accept, ownProfile) {
			return true
		}
	}
	return false
}

// Serves reports whether a peer serves the path of a request, and this server does not.
func (p *Peers) Serves(r *http.Request) bool {
	if r.Header.Get(passedOn) != "" {
		return false
	}
	one, _ := p.find(r.URL.Path)
	return one != nil
}

// ServeHTTP passes on a request for which Serves returns true.
func (p *Peers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	one, gvr := p.find(r.URL.Path)
	if one == nil { // no longer
		p.cfg.Encoder.Error(w, r, response.NotFound())
		return
	}
	user, _ := authn.UserFrom(r.Context())
	location := &url.URL{Scheme: "https", Host: one.address, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.Query().Encode()}
	request := r.Clone(r.Context())
	request.Header.Set(passedOn, "true")
	counted := &counter{ResponseWriter: w, code: http.StatusOK}
	aggregation.Pass(counted, request, aggregation.Way{To: location, User: user, Transport: p.transport, Gate: p.cfg.Gate, Responder: refusal{p, one.name}})
	p.metrics.passed.WithLabelValues(strconv.Itoa(counted.code), gvr.Group, gvr.Version, gvr.Resource).Inc()
}

// counter remembers the status code of a response.
type counter struct {
	http.ResponseWriter
	code int
}

// WriteHeader implements http.ResponseWriter.
func (c *counter) WriteHeader(code int) {
	c.code = code
	c.ResponseWriter.WriteHeader(code)
}

// Unwrap lets http.ResponseController flush.
func (c *counter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// Hijack hands the connection over for another protocol.
func (c *counter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c.code = http.StatusSwitchingProtocols
	return http.NewResponseController(c.ResponseWriter).Hijack()
}

// refusal tells a client that a peer could not be reached.
type refusal struct {
	*Peers
	name string
}

// Error implements proxy.ErrorResponder.
func (f refusal) Error(w http.ResponseWriter, r *http.Request, err error) {
	gvr, _ := resourceOf(r.URL.Path)
	f.metrics.errors.WithLabelValues("proxy_transport", gvr.Group, gvr.Version, gvr.Resource).Inc()
	f.cfg.Encoder.Error(w, r, apierrors.NewServiceUnavailable(fmt.Sprintf("the apiserver %s, which serves this resource, cannot be reached: %v", f.name, err)))
}

// ask asks an apiserver what it serves. It returns what was known before if that is the same.
func (p *Peers) ask(ctx context.Context, name, address string, before *peer) (*peer, error) {
	next := &peer{name: name, address: address, documents: map[string]document{}}
	same := before != nil && before.address == address
	if same {
		maps.Copy(next.documents, before.documents)
	}
	for _, path := range paths() {
		found, err := p.read(ctx, address, path, next.documents[path])
		if err != nil {
			return nil, err
		}
		if found != nil {
			same, next.documents[path] = false, *found
		}
	}
	if same {
		return before, nil
	}
	return next, nil
}

// read returns the discovery document at a path of an apiserver; nil if it is still the one of before.
func (p *Peers) read(ctx context.Context, address, path string, before document) (*document, error) {
	to := url.URL{Scheme: "https", Host: address, Path: path}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("asking for %s: %w", to.String(), err)
	}
	request.Header.Set("Accept", ownDiscovery)
	request.Header.Set(passedOn, "true")
	if before.etag != "" {
		request.Header.Set("If-None-Match", before.etag)
	}
	aggregation.SetUser(request, authn.User{Name: serverUser, Groups: []string{masters}})
	answer, err := p.transport.RoundTrip(request)
	if err != nil {
		return nil, fmt.Errorf("asking for %s: %w", to.String(), err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxDocument+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", to.String(), err)
	case before.etag != "" && answer.StatusCode == http.StatusNotModified:
		return nil, nil //nolint:nilnil // It has not changed.
	case answer.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("asking for %s: the answer is %s", to.String(), answer.Status)
	case len(body) > maxDocument:
		return nil, fmt.Errorf("reading %s: it has more than %d bytes", to.String(), maxDocument)
	}
	var list apidiscoveryv2.APIGroupDiscoveryList
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("reading %s: %w", to.String(), err)
	}
	return &document{etag: answer.Header.Get("Etag"), groups: list.Items}, nil
}
