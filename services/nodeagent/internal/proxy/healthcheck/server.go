package healthcheck

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/netutil"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/metric"
)

const (
	// maxConnections bounds the connections of one address, and the timeouts how long each lives.
	maxConnections = 64
	headerTimeout  = 5 * time.Second
	writeTimeout   = 10 * time.Second
	idleTimeout    = 30 * time.Second
	maxHeaderBytes = 16 << 10
)

// Config configures a Server.
type Config struct {
	// Address is where /healthz and /livez are served, like "0.0.0.0:10256"; nowhere when empty.
	Address string
	// Health is the proxy's health.
	Health *Health
	// Eligible reports whether the node may get traffic from load balancers; always when nil.
	Eligible func() bool
	// Failed is told that a Service's health-check port cannot be opened; nobody when nil.
	Failed func(service types.NamespacedName, err error)
	// Logger logs what the servers report; slog.Default when nil.
	Logger *slog.Logger
	// Registerer registers kubeproxy_proxy_healthz_total and kubeproxy_proxy_livez_total.
	Registerer prometheus.Registerer
}

// Server serves the health ports. Sync, Open and Close are called by one goroutine.
type Server struct {
	cfg     Config
	healthz *prometheus.CounterVec
	livez   *prometheus.CounterVec
	own     *http.Server
	ports   map[types.NamespacedName]*port
	serving sync.WaitGroup
}

// Service is what the health-check node port of a Service needs.
type Service struct {
	Port uint16
	// Local is the number of ready endpoints on the node.
	Local int
}

// port is the open health-check port of a Service.
type port struct {
	service types.NamespacedName
	number  uint16
	addrs   []netip.Addr
	local   atomic.Int64
	health  *Health
	server  *http.Server
}

// New creates a Server that listens nowhere yet.
func New(cfg Config) *Server {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	counter := func(name, path string) *prometheus.CounterVec {
		return metric.Register(cfg.Registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: name, Help: "Cumulative number of answers of " + path + " by HTTP status.",
		}, []string{"code"}))
	}
	return &Server{
		cfg: cfg, ports: make(map[types.NamespacedName]*port),
		healthz: counter("kubeproxy_proxy_healthz_total", "/healthz"), livez: counter("kubeproxy_proxy_livez_total", "/livez"),
	}
}

// Open serves /healthz and /livez until Close.
func (s *Server) Open() error {
	if s.cfg.Address == "" {
		return nil
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", s.serveHealthz)
	mux.HandleFunc("/livez", s.serveLivez)
	server := s.server(mux)
	if err := s.listen(server, s.cfg.Address); err != nil {
		return fmt.Errorf("opening the health port: %w", err)
	}
	s.own = server
	return nil
}

// Sync opens and closes health-check node ports, so that exactly those of services are open, on the
// given addresses (on all where there are none). It retries ports that could not be opened.
func (s *Server) Sync(services map[types.NamespacedName]Service, addrs []netip.Addr) {
	for name, open := range s.ports {
		if wanted, ok := services[name]; !ok || wanted.Port != open.number || !slices.Equal(open.addrs, addrs) {
			s.shut(open.server)
			delete(s.ports, name)
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(services), compareNames) {
		service := services[name]
		if service.Port == 0 {
			continue
		}
		open := s.ports[name]
		if open == nil {
			open = &port{service: name, number: service.Port, addrs: slices.Clone(addrs), health: s.cfg.Health}
			open.server = s.server(open)
			if err := s.openPort(open); err != nil {
				s.shut(open.server)
				if s.cfg.Failed != nil {
					s.cfg.Failed(name, err)
				}
				continue
			}
			s.ports[name] = open
		}
		open.local.Store(int64(service.Local))
	}
}

func compareNames(a, b types.NamespacedName) int {
	switch {
	case a.String() < b.String():
		return -1
	case a.String() > b.String():
		return 1
	}
	return 0
}

// Close closes all ports and returns when every server has ended.
func (s *Server) Close() {
	if s.own != nil {
		s.shut(s.own)
		s.own = nil
	}
	for _, open := range s.ports {
		s.shut(open.server)
	}
	clear(s.ports)
	s.serving.Wait()
}

func (s *Server) server(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelDebug),
	}
}

func (s *Server) openPort(p *port) error {
	number := strconv.Itoa(int(p.number))
	if len(p.addrs) == 0 {
		return s.listen(p.server, ":"+number)
	}
	for _, addr := range p.addrs {
		if err := s.listen(p.server, net.JoinHostPort(addr.String(), number)); err != nil {
			return err
		}
	}
	return nil
}

// listen makes a server serve an address, in a goroutine that ends with the server.
func (s *Server) listen(server *http.Server, address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	s.serving.Go(func() {
		if err := server.Serve(netutil.LimitListener(listener, maxConnections)); !errors.Is(err, http.ErrServerClosed) {
			s.cfg.Logger.Error("the health port has ended", "address", address, "err", err)
		}
	})
	return nil
}

func (s *Server) shut(server *http.Server) {
	if err := server.Close(); err != nil {
		s.cfg.Logger.Debug("closing a health port", "err", err)
	}
}

func (s *Server) serveHealthz(w http.ResponseWriter, _ *http.Request) {
	body := s.cfg.Health.status()
	eligible := s.cfg.Eligible == nil || s.cfg.Eligible()
	body.NodeEligible = &eligible
	s.answer(w, body, body.Healthy && eligible, s.healthz)
}

func (s *Server) serveLivez(w http.ResponseWriter, _ *http.Request) {
	body := s.cfg.Health.status()
	s.answer(w, body, body.Healthy, s.livez)
}

func (s *Server) answer(w http.ResponseWriter, body status, healthy bool, counter *prometheus.CounterVec) {
	code := http.StatusServiceUnavailable
	if healthy {
		code = http.StatusOK
		// Monitors compare this to the current time, although there may have been nothing to update.
		body.LastUpdated = body.CurrentTime
	}
	counter.WithLabelValues(strconv.Itoa(code)).Inc()
	writeJSON(w, code, body)
}

// ServeHTTP implements http.Handler: it answers a load balancer's check of one Service.
func (p *port) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	type name struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	}
	local, healthy := p.local.Load(), p.health.Healthy()
	code := http.StatusServiceUnavailable
	if local > 0 && healthy {
		code = http.StatusOK
	}
	w.Header().Set("X-Load-Balancing-Endpoint-Weight", strconv.FormatInt(local, 10))
	writeJSON(w, code, struct {
		Service             name  `json:"service"`
		LocalEndpoints      int64 `json:"localEndpoints"`
		ServiceProxyHealthy bool  `json:"serviceProxyHealthy"`
	}{name{p.service.Namespace, p.service.Name}, local, healthy})
}

// writeJSON answers with a body of fields that always can be encoded. Whoever asked may be gone.
func writeJSON(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}
