package config

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/garboard/garboard/libs/bus"
)

// good returns a configuration that suffices.
func good() Config {
	return Config{
		Serving: Serving{Listen: "127.0.0.1:6443", CertDir: "/pki"}, Etcd: Etcd{Servers: []string{"http://127.0.0.1:2379"}},
		Bus: Bus{NATS: bus.Config{URLs: []string{"nats://127.0.0.1:4222"}}}, Logger: slog.New(slog.DiscardHandler),
	}
}

func TestDefaults(t *testing.T) {
	c := good()
	if err := c.Complete(); err != nil {
		t.Fatal(err)
	}
	if c.Etcd.Prefix != "/registry" || c.Etcd.EventTTL != time.Hour || c.ServiceCIDR != "10.96.0.0/12" || c.Limits.RequestTimeout != time.Minute ||
		c.Limits.MaxReads != 400 || c.Limits.MaxWrites != 200 || c.Audit.Mode != "blocking" || c.Bus.Log.Replicas != 1 || c.Window.Events != 8192 ||
		!slices.Equal(c.Authentication.Audiences, []string{DefaultIssuer}) {
		t.Errorf("the defaults are %+v", c)
	}
	if c.Registerer == nil || c.Gatherer == nil || c.Bus.NATS.Registerer != c.Registerer || c.Bus.NATS.Logger != c.Logger {
		t.Error("there is no logger, registerer or gatherer")
	}
}

func TestFaults(t *testing.T) {
	for want, spoil := range map[string]func(*Config){
		`"x", is not HOST:PORT`:                                    func(c *Config) { c.Serving.Listen = "x" },
		"no certificate directory":                                 func(c *Config) { c.Serving.CertDir = "" },
		"--tls-cert-file and --tls-private-key-file":               func(c *Config) { c.Serving.TLSKeyFile = "key" },
		"--proxy-client-cert-file and --proxy-client-key-file":     func(c *Config) { c.Serving.ProxyClientCertFile = "cert" },
		`empty value in "requestheader-username-headers"`:          func(c *Config) { c.Authentication.FrontProxy.UsernameHeaders = []string{"X-Remote-User", ""} },
		`empty value in "requestheader-uid-headers"`:               func(c *Config) { c.Authentication.FrontProxy.UIDHeaders = []string{"X-Remote-Uid", " "} },
		`empty value in "requestheader-group-headers"`:             func(c *Config) { c.Authentication.FrontProxy.GroupHeaders = []string{" "} },
		`empty value in "requestheader-extra-headers-prefix"`:      func(c *Config) { c.Authentication.FrontProxy.ExtraHeaderPrefixes = []string{""} },
		`empty value in "requestheader-allowed-names"`:             func(c *Config) { c.Authentication.FrontProxy.AllowedNames = []string{"\t"} },
		"without specifying the standard X-Remote-Uid header - AP": func(c *Config) { c.Authentication.FrontProxy.UIDHeaders = []string{"X-Uid"} },
		"no etcd server":                  func(c *Config) { c.Etcd.Servers = nil },
		"no NATS server":                  func(c *Config) { c.Bus.NATS.URLs = nil },
		"--nats-insecure":                 func(c *Config) { c.Bus.NATS.URLs = []string{"nats://elsewhere:4222"} },
		"parsing an etcd server override": func(c *Config) { c.Etcd.ServersOverrides = []string{"events"} },
		"the grace period of watches, -1s, must not be negative":   func(c *Config) { c.Serving.ShutdownWatchGrace = -time.Second },
		"is not an IP address that they can reach":                 func(c *Config) { c.Serving.AdvertiseAddress = "127.0.0.1" },
		"the compaction interval of etcd, -1s":                     func(c *Config) { c.Etcd.CompactionInterval = -time.Second },
		"the lifetime of events, -1s":                              func(c *Config) { c.Etcd.EventTTL = -time.Second },
		"clients' connections to NATS, 1ms, must be at least 1s":   func(c *Config) { c.Bus.Life = time.Millisecond },
		"agents' connections to NATS, -1s, must be at least 1s":    func(c *Config) { c.Bus.NodeLife = -time.Second },
		"the range of service addresses":                           func(c *Config) { c.ServiceCIDR = "x" },
		"must be of different IP families":                         func(c *Config) { c.ServiceCIDR = "10.0.0.0/16,10.1.0.0/16" },
		"must be at most one of each IP family":                    func(c *Config) { c.ServiceCIDR = "10.0.0.0/16,fd00::/112,10.1.0.0/16" },
		`"Nonsense"`:                                               func(c *Config) { c.Admission.Enable = []string{"Nonsense"} },
		"checking --feature-gates: unrecognized feature gate: X":   func(c *Config) { c.Enablement.FeatureGates = map[string][]string{"": {"X=true"}} },
		"checking --runtime-config: runtime-config enables api/be": func(c *Config) { c.Enablement.RuntimeConfig = map[string]string{"api/beta": "true"} },
		"invalid audit log mode sometimes":                         func(c *Config) { c.Audit.Mode = "sometimes" },
		"an issuer of service account tokens is empty":             func(c *Config) { c.Authentication.Issuers = []string{""} },
		`"a" is set twice`:                                         func(c *Config) { c.Authentication.Issuers = []string{"a", "a"} },
		"must be between 1 hour and 2^32 seconds":                  func(c *Config) { c.Authentication.MaxTokenLife = time.Minute },
		`"host" is no IP address`:                                  func(c *Config) { c.Serving.PeerAdvertiseIP, c.Serving.PeerAdvertisePort = "host", "6443" },
		`"" is no port`:                                            func(c *Config) { c.Serving.PeerAdvertiseIP = "10.0.0.1" },
		`"" is no IP address`:                                      func(c *Config) { c.Serving.PeerAdvertisePort = "6443" },
		"further key files": func(c *Config) {
			c.Authentication.SigningEndpoint, c.Authentication.KeyFiles = "/run/signer.sock", []string{"/keys.pem"}
		},
		`"@a b" is not the name of an abstract socket`:             func(c *Config) { c.Authentication.SigningEndpoint = "@a b" },
		`"s.sock" is neither an absolute path nor`:                 func(c *Config) { c.Authentication.SigningEndpoint = "s.sock" },
		"does not begin with a slash":                              func(c *Config) { c.Authentication.AnonymousPaths = []string{"healthz"} },
		"the log of watch messages has 6 replicas, must be 1 to 5": func(c *Config) { c.Bus.Log.Replicas = 6 },
		"--goaway-chance can not be less than 0 or greater":        func(c *Config) { c.Serving.GoawayChance = 0.021 },
		"--goaway-chance can not be less than 0":                   func(c *Config) { c.Serving.GoawayChance = -0.001 },
		"empty value in --cors-allowed-origins":                    func(c *Config) { c.Serving.AllowedOrigins = []string{""} },
		"error parsing regexp: missing closing ): `^(x$`":          func(c *Config) { c.Serving.AllowedOrigins = []string{"^(x$"} },
		"does not pin to start/end of host":                        func(c *Config) { c.Serving.AllowedOrigins = []string{"^x$", "^x"} },
		"does not pin to start/end of host in the origin header":   func(c *Config) { c.Serving.AllowedOrigins = []string{`x\.com$`} },
		"the window has -1 events":                                 func(c *Config) { c.Window.Events = -1 },
	} {
		c := good()
		spoil(&c)
		if err := c.Complete(); err == nil || !strings.HasPrefix(err.Error(), "configuring the apiserver: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	empty := Config{}
	for _, want := range []string{"HOST:PORT", "no certificate directory", "no etcd server", "no NATS server"} {
		if err := empty.Complete(); !strings.Contains(err.Error(), want) {
			t.Errorf("not all faults are returned: no %q in %v", want, err)
		}
	}
}

// TestCompleteReadsNoFile checks that only Load reads the files that a configuration names.
func TestCompleteReadsNoFile(t *testing.T) {
	c := good()
	c.Audit.PolicyFile, c.Authentication.KeyFiles = "/not/there", []string{"/not/there"}
	if err := c.Complete(); err != nil {
		t.Errorf("Complete: %v", err)
	}
	if err := c.Load(); err == nil || !strings.Contains(err.Error(), "/not/there") {
		t.Errorf("Load: %v", err)
	}
}

func TestAdmissionConfiguration(t *testing.T) {
	c := good()
	c.Admission.ConfigFile = filepath.Join(t.TempDir(), "admission.yaml")
	if err := c.Complete(); err != nil {
		t.Errorf("Complete: %v", err)
	}
	if err := c.Load(); err == nil || !strings.Contains(err.Error(), "unable to read admission control configuration from") {
		t.Errorf("Load without the file: %v", err)
	}
	const text = `{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": [{"name": "PodSecurity", "configuration": {"kind": "X"}}]}`
	if err := os.WriteFile(c.Admission.ConfigFile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Load(); err != nil {
		t.Errorf("Load: %v", err)
	}
	if got := string(c.Admission.Configurations()["PodSecurity"]); got != `{"kind":"X"}` {
		t.Errorf("got %s", got)
	}
}

func TestAddresses(t *testing.T) {
	own, err := OwnAddresses()
	if err != nil {
		t.Fatal(err)
	}
	first := ""
	if len(own) > 0 {
		first = net.JoinHostPort(own[0].String(), "7")
	}
	for _, test := range []struct {
		listening, advertise, want, external string
	}{
		{"127.0.0.1:7", "", "", "127.0.0.1:7"},
		{"127.0.0.1:7", "192.0.2.9", "192.0.2.9:7", "192.0.2.9:7"},
		{"192.0.2.1:7", "", "192.0.2.1:7", "192.0.2.1:7"},
		{"192.0.2.1:7", "2001:db8::1", "[2001:db8::1]:7", "[2001:db8::1]:7"},
		{"0.0.0.0:7", "", first, first},
	} {
		listening, err := net.ResolveTCPAddr("tcp", test.listening)
		if err != nil {
			t.Fatal(err)
		}
		c := good()
		c.Serving.AdvertiseAddress = test.advertise
		got, err := c.Serving.Advertised(listening)
		if text := got.String(); err != nil || got.IsValid() && text != test.want || got.IsValid() != (test.want != "") {
			t.Errorf("%+v: Advertised returns %s, %v", test, got, err)
		}
		if got := c.Serving.External(listening); test.external != "" && got != test.external {
			t.Errorf("%+v: External returns %s", test, got)
		}
	}
}

func TestServingHosts(t *testing.T) {
	c := good()
	c.Serving.Listen, c.Serving.Hosts = "192.0.2.1:7", []string{"api.example.com"}
	if err := c.Complete(); err != nil {
		t.Fatal(err)
	}
	hosts, err := c.ServingHosts(&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 7})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"localhost", "::1", "kubernetes.default.svc", "10.96.0.1", "api.example.com", "192.0.2.1"} {
		if !slices.Contains(hosts, want) {
			t.Errorf("no %s in %q", want, hosts)
		}
	}
}

func TestAuditor(t *testing.T) {
	for name, audit := range map[string]Audit{
		"neither": {}, "a log without a policy": {LogPath: "-"}, "a policy without a log": {PolicyFile: "p"},
	} {
		c := good()
		c.Audit = audit
		if err := c.Complete(); err != nil {
			t.Fatal(err)
		}
		if c.NewAuditor() != nil {
			t.Errorf("%s: something is recorded", name)
		}
	}
}
