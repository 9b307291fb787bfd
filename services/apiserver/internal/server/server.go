// Package server is an apiserver: the life of its parts, and how they are put together.
package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/lifecycle"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/endpoints"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/link"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/nodeproxy"
	"github.com/garboard/garboard/services/apiserver/internal/http/access"
	"github.com/garboard/garboard/services/apiserver/internal/http/aggregation"
	"github.com/garboard/garboard/services/apiserver/internal/http/audit"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn/externalsigner"
	"github.com/garboard/garboard/services/apiserver/internal/http/peers"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/allocate"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/custom"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/custom/conversion"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
	"github.com/garboard/garboard/services/apiserver/internal/server/config"
	"github.com/garboard/garboard/services/apiserver/internal/server/drain"
	"github.com/garboard/garboard/services/apiserver/internal/server/pki"
	"github.com/garboard/garboard/services/apiserver/internal/server/routes"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
	"github.com/garboard/garboard/services/apiserver/internal/upkeep/apiservices"
	"github.com/garboard/garboard/services/apiserver/internal/upkeep/availability"
	"github.com/garboard/garboard/services/apiserver/internal/upkeep/customresources"
	"github.com/garboard/garboard/services/apiserver/internal/upkeep/kubernetesservice"
	"github.com/garboard/garboard/services/apiserver/internal/upkeep/systemobjects"
)

// Server is an apiserver.
type Server struct {
	cfg   config.Config
	ready chan struct{} // closed when the server serves
}

// New checks the configuration. It starts and writes nothing.
func New(cfg config.Config) (*Server, error) {
	if err := cfg.Complete(); err != nil {
		return nil, err
	}
	if err := custom.BoundQuantities(); err != nil {
		return nil, err
	}
	return &Server{cfg: cfg, ready: make(chan struct{})}, nil
}

// Ready waits until the server serves requests.
func (s *Server) Ready(ctx context.Context) error {
	select {
	case <-s.ready:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the apiserver to be ready: %w", ctx.Err())
	}
}

// Run serves until ctx ends, and returns when everything that it started has ended. When ctx ends,
// watches are closed and requests in flight may finish. It may be called once.
func (s *Server) Run(ctx context.Context) error {
	p := &plane{cfg: s.cfg, table: scheme.New(), gate: drain.New(), started: time.Now()}
	return lifecycle.Run(ctx, s.cfg.Logger,
		// A client that comes too early, or too late, gets a response.
		lifecycle.Stage{Name: "HTTPS", Start: p.listen, Run: func(ctx context.Context) error { return p.front.run(ctx) }},
		lifecycle.Stage{Name: "signer of tokens", Start: p.prepareSigner, Run: p.runSigner, End: p.closeSigner},
		lifecycle.Stage{Name: "etcd", Start: p.open, End: p.close},
		lifecycle.Stage{Name: "audit log", Run: p.runAudit},
		lifecycle.Stage{Name: "watch cache", Run: func(ctx context.Context) error { return p.feeds.Run(ctx) }},
		p.compaction(),
		// Its end hands the publisher's role over.
		lifecycle.Stage{Name: "NATS", Run: func(ctx context.Context) error { return p.link.Run(ctx) }},
		lifecycle.Stage{Name: "filled watch cache", Start: p.fill},
		lifecycle.Stage{Name: "checks of the watch cache", Run: p.checkCaches},
		lifecycle.Stage{Name: "custom resources", Start: p.defineCustom, Run: func(ctx context.Context) error { return p.custom.Run(ctx) }},
		lifecycle.Stage{Name: "system objects", Start: p.createObjects, Run: func(ctx context.Context) error { return p.objects.Run(ctx) }},
		lifecycle.Stage{Name: "APIServices", Start: p.createAPIServices, Run: func(ctx context.Context) error { return p.described.Run(ctx) }},
		lifecycle.Stage{Name: "bootstrap roles", Start: p.createRoles},
		lifecycle.Stage{Name: "kubernetes Service", Start: p.join, Run: func(ctx context.Context) error { return p.members.Run(ctx) }},
		lifecycle.Stage{Name: "clients of NATS", Start: func(ctx context.Context) error { return p.link.Admit(ctx) }},
		lifecycle.Stage{Name: "calls to nodes", Run: func(ctx context.Context) error { return p.nodes.Run(ctx) }},
		p.peering(),
		lifecycle.Stage{Name: "aggregated APIs", Run: func(ctx context.Context) error { return p.available.Run(ctx) }},
		lifecycle.Stage{Name: "requests over NATS", Run: p.serveNATS},
		lifecycle.Stage{Name: "requests over HTTPS", Start: p.begin, End: p.finish},
		p.shutdownDelay(),
		// Its end makes the server unready, while everything is still served.
		lifecycle.Stage{Name: "readiness", Start: func(context.Context) error { close(s.ready); return nil }, End: p.leave},
	)
}

// plane holds the parts of a running apiserver.
type plane struct {
	cfg     config.Config
	table   *scheme.Table
	gate    *drain.Gate
	started time.Time

	// listen sets these.
	keys    *pki.Keys
	front   *front
	address string // HOST:PORT by which clients reach the server

	// prepareSigner sets it; nil if this server signs service account tokens itself.
	signer *externalsigner.Signer

	// open sets these.
	store     *store.Store
	services  *allocate.Services
	catalog   *kinds.Catalog
	feeds     *feed.Feeds
	registry  *registry.Registry
	access    *access.Access
	auditor   *audit.Auditor // nil if nothing is to be recorded
	users     *authn.Authenticator
	objects   *systemobjects.Objects
	described *apiservices.Keeper
	members   *kubernetesservice.Member
	custom    *customresources.Keeper
	link      *link.Link
	nodes     *nodeproxy.Nodes
	dialer    *endpoints.Dialer
	remote    *aggregation.APIs
	peers     *peers.Peers // nil if no requests are passed on to other apiservers
	available *availability.Keeper
	handler   http.Handler
	// etcdReady checks etcd. Any client may ask for it and each check is a quorum read, so
	// concurrent callers share one.
	etcdReady func(ctx context.Context) error
}

// open connects to etcd and creates what works on it.
func (p *plane) open(ctx context.Context) error {
	storeConfig, err := p.storeConfig()
	if err != nil {
		return err
	}
	p.gate.Waits("etcd", "etcd at "+strings.Join(p.cfg.Etcd.Servers, ", ")+" has not answered yet")
	if p.store, err = store.Open(ctx, storeConfig); err != nil {
		return err
	}
	if err := p.assemble(); err != nil {
		return errors.Join(err, p.store.Close())
	}
	return nil
}

func (p *plane) close(context.Context) error {
	p.registry.Close()
	return p.store.Close()
}

// assemble creates the parts that work on etcd. It starts none.
func (p *plane) assemble() error {
	if err := p.installKinds(); err != nil {
		return err
	}
	st, listening := p.store, p.front.listener.Addr()
	p.feeds = feed.New(feed.Config{
		Store: st, Table: p.table, Logger: p.cfg.Logger, Registerer: p.cfg.Registerer,
		WindowEvents: p.cfg.Window.Events, WindowBytes: p.cfg.Window.Bytes, History: p.cfg.Window.History(),
	})
	p.etcdReady = routes.Shared(st.Ready)
	p.access = access.New(p.table, st, p.feeds)
	ranges, err := p.cfg.ServiceCIDRs()
	if err != nil {
		return err
	}
	address, err := p.cfg.Serving.Advertised(listening)
	if err != nil {
		return err
	}
	p.nodes = nodeproxy.NewNodes(func() *bus.Conn { return p.link.Conn() }, p.cfg.Logger)
	p.dialer = p.newDialer()
	p.registry, err = registry.New(registry.Config{
		Catalog: p.catalog, Store: st, Feeds: p.feeds, Logger: p.cfg.Logger,
		Registerer: p.cfg.Registerer, Authorizer: p.access.Authorizer(), Admission: p.access.Plugins(),
		EnableAdmission: p.cfg.Admission.Enable, DisableAdmission: p.cfg.Admission.Disable,
		AdmissionConfigurations: p.cfg.Admission.Configurations(), Identity: kubernetesservice.LeaseName(p.cfg.Hostname),
		Dial: p.dialer.Dial,
	})
	if err != nil {
		return err
	}
	authorities, err := authn.NewAuthorities(p.keys.CA, p.cfg.Authentication.ClientCAFile, p.cfg.Logger)
	if err != nil {
		return err
	}
	proxies, err := p.frontProxy(authorities)
	if err != nil {
		return err
	}
	p.objects, err = systemobjects.New(systemobjects.Config{
		Table: p.table, Registry: p.registry, Store: st, Services: p.services, ServiceCIDRs: ranges, Advertise: address,
		ClientCAs: authorities.Certificates, FrontProxy: published(proxies), DNS: p.cfg.DNSService, Logger: p.cfg.Logger,
	})
	if err != nil {
		return err
	}
	p.described = apiservices.New(apiservices.Config{Table: p.table, Registry: p.registry, Feeds: p.feeds, Logger: p.cfg.Logger})
	p.members = kubernetesservice.New(kubernetesservice.Config{
		Table: p.table, Store: st, Registry: p.registry, Address: address, PeerAddress: p.cfg.Serving.PeerAddress(address), Hostname: p.cfg.Hostname, Logger: p.cfg.Logger,
	})
	converters, err := conversion.New(conversion.Config{Resolver: p.endpoints(), Dial: p.dialer.Dial, Registerer: p.cfg.Registerer})
	if err != nil {
		return err
	}
	p.custom = customresources.New(customresources.Config{
		Catalog: p.catalog, Converters: converters, Registry: p.registry, Feeds: p.feeds, Logger: p.cfg.Logger,
	})
	p.auditor = p.cfg.NewAuditor()
	accounts, err := p.serviceAccounts()
	if err != nil {
		return err
	}
	if p.users, err = p.authenticator(accounts, authorities, proxies); err != nil {
		return err
	}
	p.link = link.New(link.Config{
		Server: p.cfg, Table: p.table, Store: st, Feeds: p.feeds, Users: p.users, Access: p.access, Audit: p.auditor,
		Self: p.self(), Trace: p.cfg.Trace, Logger: p.cfg.Logger, Registerer: p.cfg.Registerer,
	})
	p.handler, err = p.newHandler(accounts)
	return err
}

// compaction returns the stage that compacts etcd, unless another program does.
func (p *plane) compaction() lifecycle.Stage {
	if p.cfg.Etcd.CompactionInterval == 0 {
		return lifecycle.Stage{}
	}
	return lifecycle.Stage{Name: "compaction", Run: func(ctx context.Context) error {
		return p.store.Compact(ctx, p.cfg.Etcd.CompactionInterval)
	}}
}

// runAudit writes the audit log. Whether there is one is known only when its policy was read.
func (p *plane) runAudit(ctx context.Context) error {
	if p.auditor == nil {
		<-ctx.Done()
		return nil
	}
	return p.auditor.Run(ctx)
}

// fill waits until the watch cache holds everything.
func (p *plane) fill(ctx context.Context) error {
	p.gate.Waits("watch-cache", "the watch cache is not filled yet")
	return p.feeds.Ready(ctx)
}

func (p *plane) defineCustom(ctx context.Context) error {
	p.gate.Waits("crd-informer-synced", "the custom resources that etcd has definitions of are not served yet")
	return p.custom.Install(ctx)
}

func (p *plane) createObjects(ctx context.Context) error {
	p.gate.Waits("poststarthook/start-system-namespaces-controller", "the system namespaces do not exist yet")
	return p.objects.Ensure(ctx)
}

func (p *plane) createAPIServices(ctx context.Context) error {
	p.gate.Waits("poststarthook/kube-apiserver-autoregistration", "the APIServices of the built-in groups do not exist yet")
	return p.described.Begin(ctx)
}

func (p *plane) createRoles(ctx context.Context) error {
	p.gate.Waits("poststarthook/rbac/bootstrap-roles", "the bootstrap roles do not exist yet")
	return p.access.Bootstrap(ctx, p.registry, p.cfg.Logger)
}

// join adds the server to the endpoints of the kubernetes Service.
func (p *plane) join(ctx context.Context) error { return p.members.Reconcile(ctx) }

// leave announces the shutdown, and removes the server from the endpoints.
func (p *plane) leave(ctx context.Context) error {
	p.gate.Announce()
	p.members.Leave(ctx)
	return nil
}

// keysFor reads the certificate directory, and creates the missing files unless another program
// does. The certificate for calls to other API servers may come from elsewhere.
func (p *plane) keysFor(listening net.Addr) (*pki.Keys, error) {
	keys, err := p.directory(listening)
	if serving := p.cfg.Serving; err == nil && serving.ProxyClientCertFile != "" {
		err = keys.UseProxyClient(serving.ProxyClientCertFile, serving.ProxyClientKeyFile, p.cfg.Logger)
	}
	return keys, err
}

func (p *plane) directory(listening net.Addr) (*pki.Keys, error) {
	if p.cfg.Serving.ReadsKeys() {
		return pki.Read(p.cfg.Serving.CertDir, p.cfg.Serving.TLSCertFile, p.cfg.Serving.TLSKeyFile, p.cfg.Logger)
	}
	hosts, err := p.cfg.ServingHosts(listening)
	if err != nil {
		return nil, err
	}
	return pki.Open(p.cfg.Serving.CertDir, hosts, p.cfg.Logger)
}
