package daemon_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/garboard/garboard/libs/daemon"
	"github.com/garboard/garboard/libs/daemon/daemontest"
	"github.com/garboard/garboard/libs/pki"
)

// command is a process that listens at an address.
func command(probe daemon.Probe) daemon.Command {
	return daemon.Command{
		Use: "test", Short: "Tests", Version: "v1",
		Flags: func(flags *pflag.FlagSet) {
			daemon.Group(flags, "Sheep", func(flags *pflag.FlagSet) {
				flags.StringVar(&probe.Address, "listen", probe.Address, "where it listens")
				flags.Int("sheep", 3, "how many")
			})
		},
		Probe: func() daemon.Probe { return probe },
		Run:   func(context.Context, *slog.Logger) error { return nil },
	}
}

// check runs the subcommand and returns its exit code and output.
func check(t *testing.T, probe daemon.Probe, args ...string) (code int, stderr string) {
	t.Helper()
	var text bytes.Buffer
	code = daemon.Execute(t.Context(), command(probe).Cobra(), append([]string{"healthcheck"}, args...), &text)
	return code, text.String()
}

func TestHealthcheck(t *testing.T) {
	status, body, asked := http.StatusOK, "ok", ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	defer server.Close()
	address := server.Listener.Addr().String()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	closed, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := closed.Addr().String()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		address string
		args    []string
		status  int
		body    string
		want    string // empty if it is ready
	}{
		"ready":              {address: address},
		"all IPv4 addresses": {address: "0.0.0.0:" + port},
		"any address":        {address: ":" + port},
		"a flag":             {address: "nowhere", args: []string{"--listen", address}},
		"not ready":          {address: address, status: 503, body: "waiting for NATS at nats://x:4222\n", want: "error: not ready: waiting for NATS at nats://x:4222\n"},
		"unauthorized":       {address: address, status: 401, want: "--anonymous-auth-paths"},
		"forbidden":          {address: address, status: 403, want: "--anonymous-auth-paths"},
		"no listener":        {address: nobody, want: "connection refused"},
		"no address":         {address: "nowhere", want: "HOST:PORT"},
		"no fixed port":      {address: "127.0.0.1:0", want: "no fixed port"},
		"an invalid flag":    {address: address, args: []string{"--sheep", "many"}, want: "--sheep"},
		"an argument":        {address: address, args: []string{"surplus"}, want: "surplus"},
	} {
		status, body = http.StatusOK, "ok"
		if c.status != 0 {
			status, body = c.status, c.body
		}
		code, stderr := check(t, daemon.Probe{Address: c.address}, c.args...)
		if (code != 0) != (c.want != "") || !strings.Contains(stderr, c.want) || c.want == "" && stderr != "" {
			t.Errorf("%s: got %d %q, want %q", name, code, stderr, c.want)
		}
	}
	if asked != "/readyz?verbose" {
		t.Errorf("the requested path is %s", asked)
	}
	status, body = http.StatusOK, "ok"
	t.Setenv("GARBOARD_LISTEN", address)
	if code, stderr := check(t, daemon.Probe{Address: "nowhere"}); code != 0 {
		t.Errorf("from the environment: %d %s", code, stderr)
	}
}

// TestHealthcheckByHTTPS checks which server certificates are accepted.
func TestHealthcheckByHTTPS(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	files := map[string]string{}
	pairs := map[string]tls.Certificate{}
	for _, name := range []string{"one", "two"} {
		files[name] = in(name + "-ca.crt")
		authority, _, err := pki.OpenAuthority(pki.Files{}, files[name], in(name+"-ca.key"), name)
		if err != nil {
			t.Fatal(err)
		}
		pair, _, err := authority.Open(pki.Files{}, in(name+".crt"), in(name+".key"), pki.Leaf{Name: "server", Hosts: []string{"somewhere.else"}, Use: pki.Server})
		if err != nil {
			t.Fatal(err)
		}
		pairs[name] = pair
	}
	leaf := in("leaf.crt")
	if err := os.WriteFile(leaf, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pairs["one"].Certificate[0]}), 0o600); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pairs["one"]}}
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	defer server.Close()
	address := server.Listener.Addr().String()
	for name, c := range map[string]struct {
		probe daemon.Probe
		want  string
	}{
		"the CA of the server":            {probe: daemon.Probe{CAFile: files["one"]}},
		"itself":                          {probe: daemon.Probe{CertFile: leaf}},
		"the server's own, of another CA": {probe: daemon.Probe{CAFile: files["two"], CertFile: leaf}},
		"another CA":                      {probe: daemon.Probe{CAFile: files["two"]}, want: "unknown authority"},
		"another certificate":             {probe: daemon.Probe{CertFile: in("two.crt")}, want: "unknown authority"},
		"nothing":                         {probe: daemon.Probe{CAFile: in("none"), CertFile: in("none")}},
		"nothing, on another machine":     {probe: daemon.Probe{Address: "192.0.2.1:6443", CAFile: in("none")}, want: "not a loopback address"},
	} {
		c.probe.TLS = true
		if c.probe.Address == "" {
			c.probe.Address = address
		}
		code, stderr := check(t, c.probe)
		if (code != 0) != (c.want != "") || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: got %d %q, want %q", name, code, stderr, c.want)
		}
	}
}

func TestHelp(t *testing.T) {
	cmd := command(daemon.Probe{}).Cobra()
	daemontest.CheckHelp(t, cmd)
	var help bytes.Buffer
	cmd = command(daemon.Probe{}).Cobra()
	cmd.SetOut(&help)
	if code := daemon.Execute(t.Context(), cmd, []string{"--help"}, io.Discard); code != 0 {
		t.Fatal(code)
	}
	last := -1
	for _, part := range []string{"Tests\n", "test [flags]", "healthcheck ", "Sheep flags:", "--listen string", "where it listens [$GARBOARD_LISTEN]", "--sheep int", "how many [$GARBOARD_SHEEP] (default 3)", "Logs flags:", "--log-format", "Global flags:", "--help"} {
		at := strings.Index(help.String(), part)
		if at <= last {
			t.Errorf("%q is missing or out of order in:\n%s", part, help.String())
		}
		last = at
	}
	if strings.Contains(help.String(), "completion") {
		t.Error("the help shows an unexpected command")
	}
}
