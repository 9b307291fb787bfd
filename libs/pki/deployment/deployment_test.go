package deployment_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/pki"
	"github.com/garboard/garboard/libs/pki/deployment"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fill fills dir and returns the outcome for each file.
func fill(t *testing.T, cfg deployment.Config) map[string]deployment.File {
	t.Helper()
	files, err := tryFill(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func tryFill(cfg deployment.Config) (map[string]deployment.File, error) {
	files := map[string]deployment.File{}
	cfg.Report = func(file deployment.File) { files[file.Path] = file }
	return files, deployment.Fill(cfg)
}

// contents returns all files below dir except the lock.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == ".lock" {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		all[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestLayout checks which files are created, that all of them are reported, and that a second run
// changes nothing.
func TestLayout(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "deployment")
	first := fill(t, deployment.Config{Dir: dir})
	made := contents(t, dir)
	want := strings.Fields(`
		ca/ca.crt ca/ca.key ca/etcd-ca.crt ca/etcd-ca.key ca/routes-ca.crt ca/routes-ca.key ca/front-proxy-ca.crt ca/front-proxy-ca.key
		apiserver/ca.crt apiserver/sa.key apiserver/nats-issuer.seed apiserver/nats-apiserver.seed apiserver/nats-auth.conf apiserver/tls.crt apiserver/tls.key
		apiserver/etcd-ca.crt apiserver/etcd-client.crt apiserver/etcd-client.key apiserver/nats-client.crt apiserver/nats-client.key
		apiserver/front-proxy-ca.crt apiserver/front-proxy-client.crt apiserver/front-proxy-client.key
		controllers/kubeconfig controllers/ca.crt controllers/ca.key controllers/sa.key scheduler/kubeconfig scheduler/ca.crt
		nodeagent/bootstrap-kubeconfig nodeagent/ca.crt
		etcd/etcd-ca.crt etcd/server.crt etcd/server.key etcd/peer.crt etcd/peer.key etcd/client.crt etcd/client.key
		nats/server.crt nats/server.key nats/ca.crt nats/nats-auth.conf nats/route.crt nats/route.key nats/routes-ca.crt
		admin/kubeconfig admin/bootstrap-token admin/ca.crt gateway/ca.crt
		prometheus/client.crt prometheus/client.key prometheus/ca.crt`)
	for _, name := range want {
		file, ok := first[name]
		if !ok || file.Outcome != pki.Made || made[name] == "" {
			t.Errorf("%s: %+v, %d bytes", name, file, len(made[name]))
		}
		if strings.HasSuffix(name, ".crt") != (!file.End.IsZero() && !strings.HasSuffix(name, "kubeconfig")) {
			t.Errorf("%s expires on %v", name, file.End)
		}
	}
	if len(made) != len(want) || len(first) != len(want) {
		t.Errorf("%d files were created and %d reported, want %d: %v", len(made), len(first), len(want), slices.Sorted(keys(made)))
	}
	for name := range made {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		mode := fs.FileMode(0o600)
		if strings.HasSuffix(name, ".crt") || strings.HasSuffix(name, ".conf") {
			mode = 0o644
		}
		if info.Mode().Perm() != mode {
			t.Errorf("%s has the permissions %v, want %v", name, info.Mode(), mode)
		}
	}
	for _, folder := range deployment.Folders() {
		if info, err := os.Stat(filepath.Join(dir, folder)); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", folder, info.Mode(), err)
		}
	}
	for name, file := range fill(t, deployment.Config{Dir: dir}) {
		if file.Outcome != pki.Kept || file.Mended {
			t.Errorf("the second run: %+v", file)
		}
		if file.End != first[name].End {
			t.Errorf("%s expires on %v, then on %v", name, first[name].End, file.End)
		}
	}
	same(t, made, contents(t, dir))
}

func keys(all map[string]string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for name := range all {
			if !yield(name) {
				return
			}
		}
	}
}

// same checks that all files except some are unchanged.
func same(t *testing.T, before, after map[string]string, but ...string) {
	t.Helper()
	for name := range before {
		if changed := before[name] != after[name]; changed != slices.Contains(but, name) {
			t.Errorf("%s has changed: %v", name, changed)
		}
	}
}

// TestCompletes checks that every missing or outdated file is created, and that nothing else
// changes.
func TestCompletes(t *testing.T) {
	remove := func(names ...string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			for _, name := range names {
				if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for name, c := range map[string]struct {
		damage  func(t *testing.T, dir string)
		cfg     deployment.Config
		changes []string
	}{
		"nothing":            {},
		"a certificate":      {damage: remove("apiserver/tls.crt"), changes: []string{"apiserver/tls.crt", "apiserver/tls.key"}},
		"a key":              {damage: remove("etcd/peer.key"), changes: []string{"etcd/peer.crt", "etcd/peer.key"}},
		"a copy":             {damage: remove("gateway", "controllers/ca.key", "controllers/sa.key")},
		"a derived file":     {damage: remove("nats/nats-auth.conf", "apiserver/nats-auth.conf", "nodeagent/bootstrap-kubeconfig")},
		"the token":          {damage: remove("admin/bootstrap-token"), changes: []string{"admin/bootstrap-token", "nodeagent/bootstrap-kubeconfig"}},
		"a kubeconfig":       {damage: remove("scheduler/kubeconfig"), changes: []string{"scheduler/kubeconfig"}},
		"a seed":             {damage: remove("apiserver/nats-issuer.seed"), changes: []string{"apiserver/nats-issuer.seed", "apiserver/nats-auth.conf", "nats/nats-auth.conf"}},
		"the accounts' key":  {damage: remove("apiserver/sa.key"), changes: []string{"apiserver/sa.key", "controllers/sa.key"}},
		"a name":             {cfg: deployment.Config{NATSHosts: []string{"nats-0.nats"}}, changes: []string{"nats/server.crt", "nats/server.key", "nats/route.crt", "nats/route.key"}},
		"names of etcd":      {cfg: deployment.Config{EtcdHosts: []string{"*.etcd.svc", "10.0.0.9"}}, changes: []string{"etcd/server.crt", "etcd/server.key", "etcd/peer.crt", "etcd/peer.key"}},
		"an address":         {cfg: deployment.Config{ServiceCIDR: "10.32.0.0/16,fd00::/112"}, changes: []string{"apiserver/tls.crt", "apiserver/tls.key"}},
		"the server":         {cfg: deployment.Config{Server: "https://other:1"}, changes: []string{"controllers/kubeconfig", "scheduler/kubeconfig", "nodeagent/bootstrap-kubeconfig"}},
		"the server outside": {cfg: deployment.Config{AdminServer: "https://other:1"}, changes: []string{"admin/kubeconfig"}},
		"an expiring certificate": {damage: func(t *testing.T, dir string) {
			ending(t, dir, "apiserver/nats-client", time.Now().Add(29*24*time.Hour))
		}, changes: []string{"apiserver/nats-client.crt", "apiserver/nats-client.key"}},
		"a deployment without a routes CA": {
			damage:  remove("ca/routes-ca.crt", "ca/routes-ca.key", "nats/routes-ca.crt", "nats/route.crt", "nats/route.key"),
			changes: []string{"ca/routes-ca.crt", "ca/routes-ca.key", "nats/routes-ca.crt", "nats/route.crt", "nats/route.key"},
		},
		"a deployment without a front proxy": {
			damage:  remove("ca/front-proxy-ca.crt", "ca/front-proxy-ca.key", "apiserver/front-proxy-ca.crt", "apiserver/front-proxy-client.crt", "apiserver/front-proxy-client.key"),
			changes: []string{"ca/front-proxy-ca.crt", "ca/front-proxy-ca.key", "apiserver/front-proxy-ca.crt", "apiserver/front-proxy-client.crt", "apiserver/front-proxy-client.key"},
		},
		"an expired certificate": {damage: func(t *testing.T, dir string) { ending(t, dir, "apiserver/nats-client", time.Now().Add(-time.Hour)) }, changes: []string{"apiserver/nats-client.crt", "apiserver/nats-client.key"}},
		"a wrong copy":           {damage: func(t *testing.T, dir string) { overwrite(t, dir, "scheduler/ca.crt", "rubbish") }},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			fill(t, deployment.Config{Dir: dir})
			before := contents(t, dir)
			if c.damage != nil {
				c.damage(t, dir)
			}
			c.cfg.Dir = dir
			fill(t, c.cfg)
			same(t, before, contents(t, dir), c.changes...)
			// The result must be stable.
			after := contents(t, dir)
			for _, file := range fill(t, c.cfg) {
				if file.Outcome != pki.Kept {
					t.Errorf("the next run: %v", file)
				}
			}
			same(t, after, contents(t, dir))
		})
	}
}

// ending replaces a certificate by one that differs only in its expiry.
func ending(t *testing.T, dir, name string, end time.Time) {
	t.Helper()
	authority, err := tls.LoadX509KeyPair(filepath.Join(dir, "ca/ca.crt"), filepath.Join(dir, "ca/ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "garboard-apiserver"}, NotBefore: time.Now().Add(-1000 * time.Hour), NotAfter: end,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, authority.Leaf, key.Public(), authority.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	overwrite(t, dir, name+".crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})))
	overwrite(t, dir, name+".key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
}

func overwrite(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestNeverReplaced checks that existing authorities and damaged files are left alone, with an
// error that names the file.
func TestNeverReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(t *testing.T, dir string)
		want   string
	}{
		"no authority":                  {func(t *testing.T, dir string) { drop(t, dir, "ca") }, "restore the folder"},
		"no authority of etcd":          {func(t *testing.T, dir string) { drop(t, dir, "ca/etcd-ca.crt", "ca/etcd-ca.key") }, "etcd-ca.crt is missing"},
		"no authority of routes":        {func(t *testing.T, dir string) { drop(t, dir, "ca/routes-ca.crt", "ca/routes-ca.key") }, "routes-ca.crt is missing"},
		"no authority of front proxies": {func(t *testing.T, dir string) { drop(t, dir, "ca/front-proxy-ca.crt", "ca/front-proxy-ca.key") }, "front-proxy-ca.crt is missing"},
		"no key":                        {func(t *testing.T, dir string) { drop(t, dir, "ca/ca.key") }, "ca.key is missing"},
		"a damaged authority":           {func(t *testing.T, dir string) { overwrite(t, dir, "ca/ca.crt", "rubbish") }, "ca/ca.crt is damaged"},
		"a damaged key":                 {func(t *testing.T, dir string) { overwrite(t, dir, "apiserver/sa.key", "rubbish") }, "sa.key is damaged"},
		"a damaged kubeconfig":          {func(t *testing.T, dir string) { overwrite(t, dir, "admin/kubeconfig", "rubbish") }, "admin/kubeconfig is damaged"},
		"a damaged token":               {func(t *testing.T, dir string) { overwrite(t, dir, "admin/bootstrap-token", "ABCDEF.0123456789abcdef") }, "no bootstrap token"},
		"a concurrent run": {func(t *testing.T, dir string) {
			file, err := os.OpenFile(filepath.Join(dir, "ca", ".lock"), os.O_RDWR, 0)
			if err == nil {
				err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = file.Close() })
		}, "another program is filling the folder"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			fill(t, deployment.Config{Dir: dir})
			c.damage(t, dir)
			before := contents(t, dir)
			if _, err := tryFill(deployment.Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			same(t, before, contents(t, dir))
		})
	}
}

func drop(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMends checks that owners and permissions are corrected and reported.
func TestMends(t *testing.T) {
	dir := t.TempDir()
	cfg := deployment.Config{Dir: dir}
	fill(t, cfg)
	for _, name := range []string{"apiserver/tls.key", "admin/kubeconfig", "apiserver"} {
		if err := os.Chmod(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	files := fill(t, cfg)
	for name, file := range files {
		if want := name == "apiserver/tls.key" || name == "admin/kubeconfig"; file.Mended != want || file.Outcome != pki.Kept {
			t.Errorf("%s: %+v", name, file)
		}
	}
	if text := files["apiserver/tls.key"].String(); text != "mended  apiserver/tls.key" {
		t.Errorf("it is reported as %q", text)
	}
	for name, mode := range map[string]fs.FileMode{"apiserver/tls.key": 0o600, "admin/kubeconfig": 0o600, "apiserver": 0o700} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	// Only root may change the owner of a file; others get an error.
	cfg.Owners = map[string]pki.Owner{"": {UID: 65532, GID: 65533}, "etcd": {UID: 65530, GID: 65531}}
	_, err := tryFill(cfg)
	if os.Geteuid() != 0 {
		if err == nil || !strings.Contains(err.Error(), "--owner") {
			t.Errorf("changing the owner of files: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	fill(t, deployment.Config{Dir: dir, Owners: cfg.Owners, NATSHosts: []string{"another"}})
	for name := range contents(t, dir) {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		stat, _ := info.Sys().(*syscall.Stat_t)
		want := "65532:65533"
		if strings.HasPrefix(name, "etcd/") {
			want = "65530:65531"
		}
		if got := fmt.Sprintf("%d:%d", stat.Uid, stat.Gid); got != want {
			t.Errorf("%s belongs to %s, want %s", name, got, want)
		}
	}
}

// TestHandshakes checks that servers and clients with the created certificates accept each other,
// and no others.
func TestHandshakes(t *testing.T) {
	dir := t.TempDir()
	fill(t, deployment.Config{Dir: dir, APIServerHosts: []string{"api.example"}})
	pair := func(name string) tls.Certificate {
		t.Helper()
		if strings.HasSuffix(name, "kubeconfig") {
			data, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			config, err := pki.ParseKubeconfig(data)
			if err != nil {
				t.Fatal(err)
			}
			pair, err := config.Pair()
			if err != nil {
				t.Fatal(err)
			}
			return pair
		}
		pair, err := tls.LoadX509KeyPair(filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key"))
		if err != nil {
			t.Fatal(err)
		}
		return pair
	}
	pool := func(name string) *x509.CertPool {
		t.Helper()
		_, data, err := pki.ReadAuthority(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(data)
		return pool
	}
	for _, c := range []struct {
		server, clients string // certificate and the CA for clients
		client, servers string
		host            string
		user, group     string
		fails           bool
	}{
		{server: "apiserver/tls", clients: "apiserver/ca.crt", client: "controllers/kubeconfig", servers: "controllers/ca.crt", host: "apiserver", user: "system:kube-controller-manager"},
		{server: "apiserver/tls", clients: "apiserver/ca.crt", client: "scheduler/kubeconfig", servers: "scheduler/ca.crt", host: "gateway", user: "system:kube-scheduler"},
		{server: "apiserver/tls", clients: "apiserver/ca.crt", client: "admin/kubeconfig", servers: "gateway/ca.crt", host: "127.0.0.1", user: "kubernetes-admin", group: "system:masters"},
		{server: "apiserver/tls", clients: "apiserver/ca.crt", client: "admin/kubeconfig", servers: "gateway/ca.crt", host: "api.example", user: "kubernetes-admin", group: "system:masters"},
		{server: "apiserver/tls", clients: "apiserver/ca.crt", client: "admin/kubeconfig", servers: "nodeagent/ca.crt", host: "10.96.0.1", user: "kubernetes-admin", group: "system:masters"},
		{server: "apiserver/tls", clients: "apiserver/ca.crt", client: "admin/kubeconfig", servers: "ca/ca.crt", host: "kubernetes.default.svc.cluster.local", user: "kubernetes-admin", group: "system:masters"},
		{server: "apiserver/tls", clients: "apiserver/ca.crt", client: "prometheus/client", servers: "prometheus/ca.crt", host: "apiserver", user: "system:garboard-monitoring", group: "system:monitoring"},
		{server: "nats/server", clients: "nats/ca.crt", client: "apiserver/nats-client", servers: "apiserver/ca.crt", host: "nats-2", user: "garboard-apiserver"},
		{server: "nats/route", clients: "nats/routes-ca.crt", client: "nats/route", servers: "nats/routes-ca.crt", host: "nats-3", user: "nats-route"},
		{server: "etcd/server", clients: "etcd/etcd-ca.crt", client: "apiserver/etcd-client", servers: "apiserver/etcd-ca.crt", host: "etcd", user: "garboard-apiserver"},
		{server: "etcd/server", clients: "etcd/etcd-ca.crt", client: "etcd/client", servers: "etcd/etcd-ca.crt", host: "localhost", user: "etcd-health"},
		{server: "etcd/peer", clients: "etcd/etcd-ca.crt", client: "etcd/peer", servers: "etcd/etcd-ca.crt", host: "etcd-3", user: "etcd-peer"},
		// An unknown name, clients of another CA, a server as a client.
		{server: "apiserver/tls", clients: "apiserver/ca.crt", client: "admin/kubeconfig", servers: "gateway/ca.crt", host: "other.example", fails: true},
		{server: "etcd/server", clients: "etcd/etcd-ca.crt", client: "apiserver/nats-client", servers: "apiserver/etcd-ca.crt", host: "etcd", fails: true},
		{server: "nats/server", clients: "nats/ca.crt", client: "apiserver/etcd-client", servers: "apiserver/ca.crt", host: "nats", fails: true},
		{server: "nats/route", clients: "nats/routes-ca.crt", client: "apiserver/nats-client", servers: "nats/routes-ca.crt", host: "nats-1", fails: true},
		{server: "nats/route", clients: "nats/routes-ca.crt", client: "nats/server", servers: "nats/routes-ca.crt", host: "nats-1", fails: true},
		{server: "apiserver/tls", clients: "apiserver/front-proxy-ca.crt", client: "apiserver/front-proxy-client", servers: "apiserver/ca.crt", host: "apiserver", user: "front-proxy-client"},
		{server: "apiserver/tls", clients: "apiserver/ca.crt", client: "apiserver/front-proxy-client", servers: "apiserver/ca.crt", host: "apiserver", fails: true},
		{server: "apiserver/tls", clients: "apiserver/front-proxy-ca.crt", client: "apiserver/nats-client", servers: "apiserver/ca.crt", host: "apiserver", fails: true},
		{server: "nats/server", clients: "nats/ca.crt", client: "nats/route", servers: "nats/ca.crt", host: "nats", fails: true},
		{server: "nats/server", clients: "nats/ca.crt", client: "apiserver/tls", servers: "apiserver/ca.crt", host: "nats", fails: true},
		{server: "etcd/client", clients: "etcd/etcd-ca.crt", client: "etcd/client", servers: "etcd/etcd-ca.crt", host: "etcd", fails: true},
	} {
		what := fmt.Sprintf("%s to %s as %s", c.client, c.server, c.host)
		server := &tls.Config{Certificates: []tls.Certificate{pair(c.server)}, ClientCAs: pool(c.clients), ClientAuth: tls.RequireAndVerifyClientCert}
		client := &tls.Config{Certificates: []tls.Certificate{pair(c.client)}, RootCAs: pool(c.servers), ServerName: c.host}
		user, err := handshake(t, server, client)
		if (err != nil) != c.fails {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if err == nil && (user.CommonName != c.user || strings.Join(user.Organization, ",") != c.group) {
			t.Errorf("%s: the client's name is %v", what, user)
		}
	}
}

// handshake connects a client to a server and returns the client's name as the server sees it.
func handshake(t *testing.T, server, client *tls.Config) (pkix.Name, error) {
	t.Helper()
	left, right := net.Pipe()
	defer func() { _, _ = left.Close(), right.Close() }()
	failed := make(chan error, 1)
	go func() {
		// With TLS 1.3 the client learns only by reading whether the server accepted it.
		conn := tls.Client(right, client)
		err := conn.HandshakeContext(t.Context())
		if err == nil {
			_, err = conn.Read(make([]byte, 1))
		}
		if err != nil {
			_ = right.Close()
		}
		failed <- err
	}()
	conn := tls.Server(left, server)
	err := conn.HandshakeContext(t.Context())
	if err == nil {
		_, err = conn.Write([]byte("!"))
	} else {
		_ = left.Close()
	}
	if clientErr := <-failed; err == nil {
		err = clientErr
	}
	if err != nil {
		return pkix.Name{}, err
	}
	return conn.ConnectionState().PeerCertificates[0].Subject, nil
}

func TestBootstrapToken(t *testing.T) {
	form := regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}\n$`)
	seen := map[string]bool{}
	for range 3 {
		dir := t.TempDir()
		fill(t, deployment.Config{Dir: dir, Server: "https://gateway:6443"})
		token := contents(t, dir)["admin/bootstrap-token"]
		if !form.MatchString(token) || seen[token] {
			t.Errorf("the token is %q", token)
		}
		seen[token] = true
		config, err := pki.ParseKubeconfig([]byte(contents(t, dir)["nodeagent/bootstrap-kubeconfig"]))
		if err != nil || config.Token+"\n" != token || config.Server != "https://gateway:6443" || len(config.Cert) != 0 {
			t.Errorf("the nodes' kubeconfig has the token %q for %s (%v)", config.Token, config.Server, err)
		}
	}
}
