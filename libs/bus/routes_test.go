package bus_test

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/conf"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/garboard/garboard/libs/pki"
	"github.com/garboard/garboard/libs/pki/deployment"
)

// root is the module's root directory.
const root = "../.."

// clusterBlocks returns the cluster blocks of nats-server in all source files other than programs,
// by file. It removes comment marks from commented blocks, and actions from templates.
func clusterBlocks(t *testing.T) map[string]string {
	t.Helper()
	blocks := map[string]string{}
	begins, action := regexp.MustCompile(`(?m)^[ \t]*(# )?cluster[ \t]*:?[ \t]*\{[ \t]*$`), regexp.MustCompile(`\{\{.*?\}\}`)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() && slices.Contains([]string{".git", "bin", ".garboard"}, entry.Name()) {
			if err == nil {
				err = filepath.SkipDir
			}
			return err
		}
		if !entry.Type().IsRegular() || filepath.Ext(path) == ".go" {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		text := action.ReplaceAllString(string(data), "x")
		for i, at := range begins.FindAllStringSubmatchIndex(text, -1) {
			block := text[at[0]:]
			if at[2] >= 0 {
				block = regexp.MustCompile(`(?m)^[ \t]*# ?`).ReplaceAllString(block, "")
			}
			blocks[fmt.Sprintf("%s#%d", name, i)] = balanced(t, name, block)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return blocks
}

// balanced returns text up to the brace that closes the first one.
func balanced(t *testing.T, name, text string) string {
	t.Helper()
	depth, end := 0, 0
	for line := range strings.Lines(text) {
		end += len(line)
		code, _, _ := strings.Cut(line, "#")
		depth += strings.Count(code, "{") - strings.Count(code, "}")
		if depth == 0 {
			return text[:end]
		}
	}
	t.Fatalf("%s: unterminated cluster block:\n%s", name, text)
	return ""
}

// TestShippedClusterBlocks checks that every cluster block trusts only the CA of the routes.
func TestShippedClusterBlocks(t *testing.T) {
	blocks := clusterBlocks(t)
	for _, want := range []string{
		"compose/nats/cluster.conf#0", "docs/examples/nats/nats.conf#0", "helm/garboard/templates/_stores.tpl#0",
		"test/chart/testdata/golden/default.yaml#0", // rendered from the chart
	} {
		if blocks[want] == "" {
			t.Errorf("%s was not found", want)
		}
	}
	for name, block := range blocks {
		parsed, err := conf.Parse(block)
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, block)
			continue
		}
		cluster, _ := parsed["cluster"].(map[string]any)
		tls, _ := cluster["tls"].(map[string]any)
		for key, want := range map[string]string{"cert_file": "route.crt", "key_file": "route.key", "ca_file": "routes-ca.crt"} {
			if file, _ := tls[key].(string); filepath.Base(file) != want {
				t.Errorf("%s: the routes' %s is %q, want %s", name, key, file, want)
			}
		}
		if tls["verify"] != true {
			t.Errorf("%s: routes need no client certificate:\n%s", name, block)
		}
	}
}

// refusals counts the route connections that a server has refused.
type refusals struct{ number atomic.Int64 }

func (r *refusals) Errorf(format string, v ...any) {
	if strings.Contains(fmt.Sprintf(format, v...), "TLS route handshake error") {
		r.number.Add(1)
	}
}

func (*refusals) Noticef(string, ...any) {}
func (*refusals) Warnf(string, ...any)   {}
func (*refusals) Fatalf(string, ...any)  {}
func (*refusals) Debugf(string, ...any)  {}
func (*refusals) Tracef(string, ...any)  {}

// routed is a nats-server with a cluster block.
type routed struct{ *server.Server }

// runRouted runs a server that has only a cluster block, with certificate files from dir and routes
// to other servers.
func runRouted(t *testing.T, name, block, dir string, to ...*url.URL) routed {
	t.Helper()
	block = regexp.MustCompile(`"[^"]*/([^"/]+\.(crt|key))"`).ReplaceAllString(block, `"`+dir+`/$1"`)
	block = regexp.MustCompile(`(?s)routes:\s*\[.*?\]`).ReplaceAllString(block, "")
	block = strings.ReplaceAll(block, "0.0.0.0:6222", "127.0.0.1:-1")
	file := filepath.Join(t.TempDir(), "nats.conf")
	write(t, file, []byte("listen: 127.0.0.1:-1\n"+block))
	options, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatalf("%v\n%s", err, block)
	}
	// It retries a refused route at once, and the machine may be stalled.
	options.ServerName, options.NoSigs, options.NoLog, options.Routes, options.Cluster.TLSTimeout = name, true, true, to, 30
	s, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(time.Minute) {
		t.Fatalf("%s did not start", name)
	}
	return routed{s}
}

// url is where other servers reach it as a route.
func (r routed) url() *url.URL {
	return &url.URL{Scheme: "nats", Host: r.ClusterAddr().String()}
}

func within(t *testing.T, what string, met func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for !met() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("timed out waiting for %s", what)
		}
	}
}

// TestRoutesOfStrangers starts a server with each shipped cluster block. The holder of a
// certificate of the plane's CA, for a node, a user, an apiserver or a NATS server, cannot become a
// route. The holder of a certificate of the routes' CA can.
func TestRoutesOfStrangers(t *testing.T) {
	made := t.TempDir()
	if err := deployment.Fill(deployment.Config{Dir: made}); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(made, "nats")
	plane, _, err := pki.OpenAuthority(pki.Files{}, filepath.Join(made, "ca/ca.crt"), filepath.Join(made, "ca/ca.key"), "")
	if err != nil {
		t.Fatal(err)
	}
	// They accept the server's certificate and present their own.
	strangers := map[string]string{}
	for name, leaf := range map[string]pki.Leaf{
		"node":        {Name: "system:node:n1", Groups: []string{"system:nodes"}, Use: pki.Client},
		"user":        {Name: "jane", Groups: []string{"system:masters"}, Use: pki.Peer, Hosts: []string{"nats-1", "127.0.0.1"}},
		"nats-server": {Name: "nats", Use: pki.Peer, Hosts: []string{"nats-1", "127.0.0.1"}},
	} {
		dir := t.TempDir()
		cert, key, err := plane.Issue(leaf)
		if err != nil {
			t.Fatal(err)
		}
		// The file names that a block may use.
		for _, base := range []string{"route", "server"} {
			write(t, filepath.Join(dir, base+".crt"), cert)
			write(t, filepath.Join(dir, base+".key"), key)
		}
		authority, err := os.ReadFile(filepath.Join(own, "routes-ca.crt"))
		if err != nil {
			t.Fatal(err)
		}
		// It trusts both CAs, so that only the server can end the connection.
		for _, base := range []string{"routes-ca.crt", "ca.crt"} {
			write(t, filepath.Join(dir, base), append(authority, plane.PEM()...))
		}
		strangers[name] = dir
	}
	for name, block := range clusterBlocks(t) {
		if strings.HasSuffix(strings.TrimRight(name, "#0123456789"), ".tpl") {
			continue // The rendered chart is among the others.
		}
		t.Run(name, func(t *testing.T) {
			first := runRouted(t, "first", block, own)
			for who, dir := range strangers {
				log := &refusals{}
				first.SetLoggerV2(log, false, false, false)
				stranger := runRouted(t, who, block, dir, first.url())
				within(t, who+" to be refused", func() bool { return log.number.Load() > 1 })
				if n := first.NumRoutes() + stranger.NumRoutes(); n > 0 {
					t.Errorf("%s became a route", who)
				}
				stranger.Shutdown()
				stranger.WaitForShutdown()
			}
			second := runRouted(t, "second", block, own, first.url())
			within(t, "the second server to join", func() bool { return first.NumRoutes() > 0 && second.NumRoutes() > 0 })
		})
	}
}
