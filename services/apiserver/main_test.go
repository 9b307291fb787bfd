package apiserver_test

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/garboard/garboard/libs/bus/bustest"
	"github.com/garboard/garboard/libs/bus/embedded"
	"github.com/garboard/garboard/libs/trace"
	"github.com/garboard/garboard/services/apiserver"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long tests wait for an event that must come.
const patience = time.Minute

// testServer is a running apiserver with its own etcd and NATS.
type testServer struct {
	t       testing.TB
	certDir string
	url     string
	etcd    []string
	bus     *bustest.Server
	change  func(*apiserver.Config) // changes the default configuration; may be nil
	stop    func()
}

// startServer starts an apiserver, which ends with the test.
func startServer(t testing.TB) *testServer {
	t.Helper()
	s := newTestServer(t, etcdtest.New(t))
	s.start()
	return s
}

// newTestServer returns an apiserver on etcd that has not been started yet.
func newTestServer(t testing.TB, etcd []string) *testServer {
	t.Helper()
	certDir := filepath.Join(t.TempDir(), "pki")
	auth, err := apiserver.BusAuth(certDir)
	if err != nil {
		t.Fatal(err)
	}
	return &testServer{t: t, certDir: certDir, etcd: etcd, bus: bustest.NewServerWith(t, embedded.Config{Auth: auth})}
}

func (s *testServer) start() {
	s.t.Helper()
	listener, err := new(net.ListenConfig).Listen(s.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	s.url = "https://" + listener.Addr().String()
	metrics := prometheus.NewRegistry()
	cfg := apiserver.Config{
		Listener: listener, CertDir: s.certDir, EtcdServers: s.etcd, Bus: s.bus.Config(),
		Logger:     slog.New(slog.NewTextHandler(s.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
		Registerer: metrics, Gatherer: metrics, Trace: trace.NewRecorder(1000),
	}
	if s.change != nil {
		s.change(&cfg)
	}
	server, err := apiserver.New(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
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
				s.t.Errorf("the apiserver ended with %v", err)
			}
		case <-time.After(patience):
			s.t.Error("the apiserver does not stop")
		}
	}
	s.t.Cleanup(s.stop)
	// The start is by far the largest piece of work, also on a busy machine.
	ready, done := context.WithTimeout(s.t.Context(), 3*patience)
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
		s.t.Fatal(err)
	}
}

// admin returns the administrator's configuration, as kubectl would read it.
func (s *testServer) admin() *rest.Config {
	s.t.Helper()
	kubeconfig, err := apiserver.Kubeconfig(s.certDir, s.url)
	if err != nil {
		s.t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		s.t.Fatal(err)
	}
	config.QPS = -1
	return config
}

// service returns the configuration of a component of the plane.
func (s *testServer) service(name string) *rest.Config {
	s.t.Helper()
	config, err := apiserver.ServiceConfig(s.certDir, s.url, name)
	if err != nil {
		s.t.Fatal(err)
	}
	config.QPS = -1
	return config
}
