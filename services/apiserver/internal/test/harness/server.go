// Package harness runs an apiserver with its own etcd and NATS for the tests that reach it as its
// clients do, over HTTPS and NATS.
package harness

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/garboard/garboard/libs/bus/bustest"
	"github.com/garboard/garboard/libs/bus/embedded"
	"github.com/garboard/garboard/libs/trace"
	"github.com/garboard/garboard/services/apiserver"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
)

// Tokens that apiservers from StartWithTokens know.
const (
	MasterToken = "mastertoken" // of a user who may do everything
	PoorToken   = "poortoken"   // of a user without rights
)

// Server is an apiserver with its own etcd and NATS. It runs from Start to Stop.
type Server struct {
	T       testing.TB
	CertDir string
	// URL is the apiserver's address. Each start changes it.
	URL string
	// Etcd has the client URLs of etcd.
	Etcd []string
	Bus  *bustest.Server
	// Change changes the default configuration before each start. It may be nil.
	Change func(*apiserver.Config)

	stop func()
}

// Start starts an apiserver on an empty etcd. It ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	s := New(t, etcdtest.New(t))
	s.Start()
	return s
}

// StartWith starts an apiserver with a changed configuration.
func StartWith(t testing.TB, change func(*apiserver.Config)) *Server {
	t.Helper()
	s := New(t, etcdtest.New(t))
	s.Change = change
	s.Start()
	return s
}

// StartWithTokens starts an apiserver that knows MasterToken and PoorToken.
func StartWithTokens(t testing.TB) *Server {
	t.Helper()
	return StartWithTokensOn(t, etcdtest.New(t))
}

// StartWithTokensOn is StartWithTokens on a running etcd.
func StartWithTokensOn(t testing.TB, etcd []string) *Server {
	t.Helper()
	s := New(t, etcd)
	tokens := filepath.Join(t.TempDir(), "tokens.csv")
	if err := os.WriteFile(tokens, []byte(MasterToken+",boss,b1,\"system:masters\"\n"+PoorToken+",poor,p1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Change = func(cfg *apiserver.Config) { cfg.Authentication.TokenFile = tokens }
	s.Start()
	return s
}

// New returns an apiserver on etcd that has not been started yet.
func New(t testing.TB, etcd []string) *Server {
	t.Helper()
	certDir := filepath.Join(t.TempDir(), "pki")
	auth, err := apiserver.BusAuth(certDir)
	if err != nil {
		t.Fatal(err)
	}
	return &Server{T: t, CertDir: certDir, Etcd: etcd, Bus: bustest.NewServerWith(t, embedded.Config{Auth: auth})}
}

// Start starts the apiserver, and returns when it is ready. It stops with the test at the latest.
func (s *Server) Start() {
	s.T.Helper()
	listener, err := new(net.ListenConfig).Listen(s.T.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		s.T.Fatal(err)
	}
	s.URL = "https://" + listener.Addr().String()
	metrics := prometheus.NewRegistry()
	cfg := apiserver.Config{
		Serving: apiserver.Serving{Listener: listener, CertDir: s.CertDir},
		Etcd:    apiserver.Etcd{Servers: s.Etcd}, Bus: apiserver.Bus{NATS: s.Bus.Config()},
		Logger:     slog.New(slog.NewTextHandler(s.T.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
		Registerer: metrics, Gatherer: metrics, Trace: trace.NewRecorder(1000),
	}
	if s.Change != nil {
		s.Change(&cfg)
	}
	server, err := apiserver.New(cfg)
	if err != nil {
		s.T.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.T.Context()))
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	stopped := false
	s.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				s.T.Errorf("the apiserver ended with %v", err)
			}
		case <-time.After(Patience):
			s.T.Error("the apiserver does not stop")
		}
	}
	s.T.Cleanup(s.stop)
	// The start is by far the largest piece of work, also on a busy machine.
	ready, done := context.WithTimeout(s.T.Context(), 3*Patience)
	defer done()
	go func() {
		select {
		case err := <-ended:
			ended <- err
			done()
		case <-ready.Done():
		}
	}()
	if err := server.Ready(ready); err != nil {
		s.T.Fatal(err)
	}
}

// Stop stops the apiserver and waits for its end. It keeps etcd and NATS, so that Start starts it
// again on the same data. Stopping twice does nothing.
func (s *Server) Stop() { s.stop() }

// Admin returns the administrator's configuration, as kubectl would read it.
func (s *Server) Admin() *rest.Config {
	s.T.Helper()
	kubeconfig, err := apiserver.Kubeconfig(s.CertDir, s.URL)
	if err != nil {
		s.T.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		s.T.Fatal(err)
	}
	config.QPS = -1
	return config
}

// Service returns the configuration of the plane's component with that user name.
func (s *Server) Service(name string) *rest.Config {
	s.T.Helper()
	config, err := apiserver.ServiceConfig(s.CertDir, s.URL, name)
	if err != nil {
		s.T.Fatal(err)
	}
	config.QPS = -1
	return config
}

// WithToken returns the configuration of a client that has only a token.
func (s *Server) WithToken(token string) *rest.Config {
	config := rest.AnonymousClientConfig(s.Admin())
	config.BearerToken, config.QPS = token, -1
	return config
}
