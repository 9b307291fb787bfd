package peers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/discovery"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
	"github.com/garboard/garboard/services/apiserver/internal/server/drain"
)

const (
	// askEvery is how often peers are asked what they serve, and askTimeout bounds each question.
	askEvery   = 10 * time.Second
	askTimeout = 5 * time.Second
	// serverName is what the serving certificates of all apiservers are for, as in kube-apiserver.
	serverName = "kubernetes.default.svc"
	// The values of connections are client-go's.
	idleConnections = 25
	idleTime        = 90 * time.Second
	handshakeTime   = 10 * time.Second
)

// Config configures Peers. All fields are required.
type Config struct {
	// Table has the kinds that this server serves.
	Table *scheme.Table
	// Addresses returns where the other apiservers are, HOST:PORT by name.
	Addresses func(ctx context.Context) (map[string]string, error)
	// Authorities returns those of the serving certificates of peers.
	Authorities func() *x509.CertPool
	// Certificate returns the client certificate by which peers know a front proxy.
	Certificate func() (*tls.Certificate, error)
	// Elsewhere knows the APIs that APIServices name, which are never taken from peers.
	Elsewhere discovery.Source
	// Gate ends what is long-running when the server shuts down.
	Gate *drain.Gate
	// Encoder sends errors to clients.
	Encoder    *response.Encoder
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Peers are the other apiservers of the plane. Any goroutine may use it.
type Peers struct {
	cfg       Config
	metrics   *metrics
	transport *http.Transport

	// custom has what this server has known as custom resources or from APIServices, which all apiservers
	// learn by themselves: a peer that still shows one was asked before it was removed. Only refresh uses it.
	custom  map[schema.GroupVersion]bool
	current atomic.Pointer[snapshot]
	merged  atomic.Pointer[merged]
}

// snapshot is what is known at one time. It does not change.
type snapshot struct {
	peers []*peer
	// extra is what peers serve and this server did not when they were asked, and who does.
	extra map[schema.GroupVersionResource][]*peer
	apis  []discovery.API
}

// peer is another apiserver. It does not change.
type peer struct {
	name, address string
	documents     map[string]document // by path
}

// document is a discovery document of a peer.
type document struct {
	etag   string
	groups []apidiscoveryv2.APIGroupDiscovery
}

// paths returns where the documents are: of the core group, and of all others.
func paths() []string { return []string{"/api", "/apis"} }

// groups returns what the peer serves.
func (p *peer) groups() (all []apidiscoveryv2.APIGroupDiscovery) {
	for _, path := range paths() {
		all = append(all, p.documents[path].groups...)
	}
	return all
}

// merged are the APIs of others, of which those of peers are a part.
type merged struct {
	elsewhere *discovery.Others
	apis      []discovery.API
	both      *discovery.Others
}

// New returns Peers that know none yet.
func New(cfg Config) *Peers {
	p := &Peers{cfg: cfg, metrics: newMetrics(cfg.Registerer), custom: map[schema.GroupVersion]bool{}}
	p.transport = &http.Transport{
		TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, ServerName: serverName,
			// The authorities' file may be replaced, so each connection is checked with what it holds then.
			InsecureSkipVerify: true, VerifyConnection: p.verify, //nolint:gosec // VerifyConnection verifies it.
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cfg.Certificate() },
		},
		ForceAttemptHTTP2: true, DisableCompression: true, MaxIdleConnsPerHost: idleConnections,
		IdleConnTimeout: idleTime, TLSHandshakeTimeout: handshakeTime,
	}
	p.current.Store(&snapshot{})
	return p
}

// verify returns an error unless the certificate of a peer is of one of the authorities.
func (p *Peers) verify(state tls.ConnectionState) error {
	options := x509.VerifyOptions{Roots: p.cfg.Authorities(), DNSName: state.ServerName, Intermediates: x509.NewCertPool()}
	for _, between := range state.PeerCertificates[1:] {
		options.Intermediates.AddCert(between)
	}
	_, err := state.PeerCertificates[0].Verify(options)
	return err
}

// Run asks the peers what they serve until ctx ends.
func (p *Peers) Run(ctx context.Context) error {
	defer p.transport.CloseIdleConnections()
	every := time.NewTicker(askEvery)
	defer every.Stop()
	for {
		p.refresh(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
	}
}

// refresh asks all peers what they serve.
func (p *Peers) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	p.note()
	addresses, err := p.cfg.Addresses(ctx)
	if err != nil {
		p.metrics.failed("lease_list")
		p.cfg.Logger.Warn("cannot find the other apiservers", "err", err)
		return
	}
	known, answers := map[string]*peer{}, make([]*peer, len(addresses))
	for _, one := range p.current.Load().peers {
		known[one.name] = one
	}
	var asked sync.WaitGroup
	for i, name := range slices.Sorted(maps.Keys(addresses)) {
		asked.Go(func() {
			next, err := p.ask(ctx, name, addresses[name], known[name])
			if err != nil {
				p.metrics.failed("fetch_discovery")
				p.cfg.Logger.Debug("an apiserver does not tell what it serves", "peer", name, "address", addresses[name], "err", err)
				return
			}
			answers[i] = next
		})
	}
	asked.Wait()
	answers = slices.DeleteFunc(answers, func(one *peer) bool { return one == nil })
	next := p.compare(answers)
	before := p.current.Load()
	if apiequality.Semantic.DeepEqual(before.apis, next.apis) {
		next.apis = before.apis // so that documents are not built again
	}
	if len(next.extra) != len(before.extra) {
		p.cfg.Logger.Info("other apiservers serve kinds that this one does not; requests for them are passed on", "resources", len(next.extra))
	}
	p.current.Store(next)
}

// note remembers what this server knows as defined by others.
func (p *Peers) note() {
	for _, kind := range p.cfg.Table.Kinds() {
		if kind.Custom {
			p.custom[kind.GroupVersion()] = true
		}
	}
	for _, api := range p.cfg.Elsewhere.Discovery().APIs {
		p.custom[api.GroupVersion] = true
	}
}

// compare returns what peers serve that this server does not.
func (p *Peers) compare(peers []*peer) *snapshot {
	p.note() // What was defined while the peers answered.
	next := &snapshot{peers: peers, extra: map[schema.GroupVersionResource][]*peer{}}
	at := map[schema.GroupVersion]int{}
	for _, one := range peers {
		for _, group := range one.groups() {
			for _, version := range group.Versions {
				gv := schema.GroupVersion{Group: group.Name, Version: version.Version}
				if p.custom[gv] {
					continue
				}
				for _, resource := range version.Resources {
					gvr := gv.WithResource(resource.Resource)
					if p.here(gvr) {
						continue
					}
					if next.extra[gvr] = append(next.extra[gvr], one); len(next.extra[gvr]) > 1 {
						continue
					}
					i, known := at[gv]
					if !known {
						i = len(next.apis)
						at[gv], next.apis = i, append(next.apis, discovery.API{GroupVersion: gv, Served: discovery.Served{Current: true, Partly: true}})
					}
					next.apis[i].Resources = append(next.apis[i].Resources, resource)
				}
			}
		}
	}
	return next
}

// here reports whether this server serves a resource itself.
func (p *Peers) here(gvr schema.GroupVersionResource) bool {
	kind := p.cfg.Table.Resource(gvr)
	return kind != nil && !kind.Unserved
}

// Discovery implements discovery.Source: it returns the APIs of APIServices and those of peers.
func (p *Peers) Discovery() *discovery.Others {
	elsewhere, apis := p.cfg.Elsewhere.Discovery(), p.current.Load().apis
	if len(apis) == 0 {
		return elsewhere
	}
	known := p.merged.Load()
	if known != nil && known.elsewhere == elsewhere && &known.apis[0] == &apis[0] {
		return known.both
	}
	next := &merged{elsewhere: elsewhere, apis: apis, both: &discovery.Others{APIs: slices.Concat(elsewhere.APIs, apis)}}
	p.merged.Store(next)
	return next.both
}

// find returns a peer that serves the path of a resource, or of what a group's version has; nil if none does, or
// if this server serves it.
func (p *Peers) find(path string) (*peer, schema.GroupVersionResource) {
	known := p.current.Load()
	if len(known.extra) == 0 {
		return nil, schema.GroupVersionResource{}
	}
	gvr, ok := resourceOf(path)
	if !ok {
		return nil, gvr
	}
	able := known.extra[gvr]
	if gvr.Resource == "" {
		able = known.only(p.cfg.Table, gvr.GroupVersion())
	}
	if len(able) == 0 || p.here(gvr) {
		return nil, gvr
	}
	return able[rand.IntN(len(able))], gvr //nolint:gosec // It only spreads load.
}

// only returns the peers that serve a version of a group of which this server has nothing.
func (s *snapshot) only(table *scheme.Table, gv schema.GroupVersion) []*peer {
	if slices.ContainsFunc(table.Kinds(), func(kind *scheme.Kind) bool { return kind.GroupVersion() == gv && !kind.Unserved }) {
		return nil
	}
	for gvr, able := range s.extra {
		if gvr.GroupVersion() == gv {
			return able
		}
	}
	return nil
}

// resourceOf returns the resource of a path of the API. Its name is empty for the path of a group's version.
func resourceOf(path string) (gvr schema.GroupVersionResource, ok bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) >= 2:
		gvr.Version, parts = parts[1], parts[2:]
	case parts[0] == "apis" && len(parts) >= 3:
		gvr.Group, gvr.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return gvr, false
	}
	if len(parts) > 0 && parts[0] == "watch" {
		parts = parts[1:]
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	if len(parts) > 0 {
		gvr.Resource = parts[0]
	}
	return gvr, true
}
