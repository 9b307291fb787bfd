// Package serving serves the kubelet's API of the node on a port, over TLS, for those whom the API's server
// authenticates and authorizes: Prometheus, metrics-server and others that connect to nodes.
package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/netutil"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/nodeapi"
	"github.com/garboard/garboard/libs/pki"
)

const (
	// maxConnections bounds the connections that are open at once.
	maxConnections = 1024
	// headerTime bounds how long a client takes to send the headers of a request, and idleTime how long a
	// connection is kept without one.
	headerTime = 10 * time.Second
	idleTime   = 90 * time.Second
	// drain is how long requests may take when the server ends.
	drain = time.Second
)

// Config configures a Server.
type Config struct {
	// Address is where the server listens, HOST:PORT; required.
	Address string
	// CertFile and KeyFile are PEM files, read again when they change. Without them the server signs its own
	// certificate, for the node's name and address, at each start.
	CertFile, KeyFile string
	// ClientCAFile is a PEM file of the CAs whose client certificates name users; none when empty.
	ClientCAFile string
	// NodeName and NodeIP are the node's.
	NodeName, NodeIP string
	// Handler serves the requests that are allowed.
	Handler http.Handler
	// Client asks the API's server who a client is and what it may do.
	Client client.Interface
	Logger *slog.Logger
}

// Number returns the port of the address; 0 if it has none that is known before the server listens.
func (c Config) Number() int32 {
	_, port, err := net.SplitHostPort(c.Address)
	if err != nil {
		return 0
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return 0
	}
	return int32(number)
}

// Server serves a port.
type Server struct {
	cfg  Config
	auth *authority
}

// New returns a Server. It does no I/O.
func New(cfg Config) *Server { return &Server{cfg: cfg, auth: newAuthority(cfg)} }

// Run serves until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	certificate := (&selfSigned{name: s.cfg.NodeName, ip: s.cfg.NodeIP}).certificate
	if s.cfg.CertFile != "" {
		pair, err := pki.NewPair("the serving certificate", s.cfg.CertFile, s.cfg.KeyFile, s.cfg.Logger)
		if err != nil {
			return fmt.Errorf("serving the node's API: %w", err)
		}
		certificate = pair.Certificate
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", s.cfg.Address)
	if err != nil {
		return fmt.Errorf("serving the node's API: %w", err)
	}
	return s.serve(ctx, netutil.LimitListener(listener, maxConnections), certificate)
}

// serve serves a listener until ctx ends.
func (s *Server) serve(ctx context.Context, listener net.Listener, certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)) error {
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime,
		ErrorLog: slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelDebug),
		// Whether a client's certificate is one of a user is checked for each request.
		TLSConfig:   &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert, GetCertificate: certificate},
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	s.cfg.Logger.Info("serving the node's API", "address", listener.Addr().String())
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(listener, "", "") }()
	select {
	case err := <-ended:
		return fmt.Errorf("serving the node's API: %w", err)
	case <-ctx.Done():
	}
	final, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if server.Shutdown(final) != nil {
		_ = server.Close() // Sessions last for hours.
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the node's API: %w", err)
	}
	return nil
}

// ServeHTTP serves a request if its sender is known and may send it. Texts of refusals are the kubelet's.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	who, err := s.auth.authenticate(r)
	if err != nil {
		s.cfg.Logger.Debug("a client was not authenticated", "err", err)
	}
	if who == nil {
		refuse(w, http.StatusUnauthorized, "Unauthorized")
		return
	}
	if cleaned := path.Clean(r.URL.Path); r.URL.Path != cleaned && r.URL.Path != cleaned+"/" {
		// What is authorized must be what is served.
		refuse(w, http.StatusBadRequest, "the path of the request is not clean")
		return
	}
	if strings.HasPrefix(r.URL.Path, "/"+nodeapi.Dial+"/") {
		http.NotFound(w, r) // Only apiservers dial, over the bus.
		return
	}
	verb, subresources := verbOf(r.Method), subresourcesOf(r.URL.Path)
	for _, subresource := range subresources {
		allowed, err := s.auth.allowed(r.Context(), who, verb, subresource, r.URL.Path)
		if err != nil {
			s.cfg.Logger.Warn("asking whether a client may use the node's API failed", "user", who.Username, "err", err)
			refuse(w, http.StatusInternalServerError, fmt.Sprintf("Authorization error (user=%s, verb=%s, resource=nodes, subresource=%s)",
				who.Username, verb, subresource))
			return
		}
		if allowed {
			s.cfg.Handler.ServeHTTP(w, r)
			return
		}
	}
	refuse(w, http.StatusForbidden, fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=nodes, subresource(s)=%v)\n", who.Username, verb, subresources))
}

func refuse(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text)) // The caller is gone if this fails.
}

// verbOf returns the API's verb for a method; empty for others.
func verbOf(method string) string {
	return map[string]string{
		http.MethodPost: "create", http.MethodGet: "get", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
	}[method]
}

// subresourcesOf returns the subresources of the node of which one suffices for a path (kubernetes,
// pkg/kubelet/server/auth.go).
func subresourcesOf(requested string) []string {
	is := func(paths ...string) bool {
		for _, each := range paths {
			if requested == each || strings.HasPrefix(requested, each+"/") {
				return true
			}
		}
		return false
	}
	switch {
	case is("/stats"):
		return []string{"stats"}
	case is("/metrics"):
		return []string{"metrics"}
	case is("/logs"):
		return []string{"log"}
	case is("/checkpoint"):
		return []string{"checkpoint"}
	case is("/statusz"):
		return []string{"statusz"}
	case is("/flagz"):
		return []string{"configz"}
	case is("/pods", "/runningpods", "/allocatedPods"):
		return []string{"pods", "proxy"}
	case is("/healthz"):
		return []string{"healthz", "proxy"}
	case is("/configz"):
		return []string{"configz", "proxy"}
	default:
		return []string{"proxy"}
	}
}
