package bustest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garboard/garboard/libs/bus/embedded"
)

// NewCluster starts servers that form one cluster and end with the test. Each can be stopped
// and started again as a server of NewServer can.
func NewCluster(t testing.TB, servers int) []*Server {
	t.Helper()
	return NewClusterWith(t, servers, "")
}

// NewClusterWith is NewCluster of servers with more in their configuration.
func NewClusterWith(t testing.TB, servers int, more string) []*Server {
	t.Helper()
	routes := freePorts(t, servers)
	var urls []string
	for _, port := range routes {
		urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", port))
	}
	all := make([]*Server, servers)
	for i := range all {
		file := filepath.Join(t.TempDir(), "nats.conf")
		text := fmt.Sprintf("host: 127.0.0.1\njetstream {}\ncluster { name: test, host: 127.0.0.1, port: %d, routes: [%s] }\n%s\n", routes[i], strings.Join(urls, ", "), more)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		all[i] = &Server{t: t, cfg: embedded.Config{Name: fmt.Sprint("server-", i), File: file, Port: embedded.RandomPort, StoreDir: t.TempDir()}}
		all[i].begin()
		t.Cleanup(all[i].Stop)
	}
	for _, s := range all {
		s.await()
	}
	return all
}

// freePorts gives ports that nobody listens at now.
func freePorts(t testing.TB, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = listener.Close() }()
		if at, ok := listener.Addr().(*net.TCPAddr); ok {
			ports = append(ports, at.Port)
		}
	}
	return ports
}

// URL is where clients connect.
func (s *Server) URL() string { return s.url }
