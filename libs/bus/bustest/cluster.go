package bustest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garboard/garboard/libs/bus/embedded"
)

// NewCluster starts servers that form one cluster and end with the test. Each can be stopped and
// restarted like a server of NewServer.
func NewCluster(t testing.TB, servers int) []*Server {
	t.Helper()
	return NewClusterWith(t, servers, "")
}

// NewClusterWith is NewCluster with more lines in each server's configuration file.
func NewClusterWith(t testing.TB, servers int, more string) []*Server {
	t.Helper()
	var routes []int
	var urls []string
	for i := range servers {
		routes = append(routes, holdPort(t))
		urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", routes[i]))
	}
	all := make([]*Server, servers)
	for i := range all {
		file := filepath.Join(t.TempDir(), "nats.conf")
		text := fmt.Sprintf("host: 127.0.0.1\njetstream {}\ncluster { name: test, host: 127.0.0.1, port: %d, routes: [%s] }\n%s\n", routes[i], strings.Join(urls, ", "), more)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		all[i] = &Server{t: t, cfg: embedded.Config{Name: fmt.Sprint("server-", i), File: file, Port: holdPort(t), StoreDir: t.TempDir()}}
		all[i].begin()
		t.Cleanup(all[i].Stop)
	}
	for _, s := range all {
		s.await()
	}
	return all
}

// URL returns the address at which clients connect.
func (s *Server) URL() string { return s.url }
