package plane

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/test/chaos/proxy"
	"github.com/garboard/garboard/test/chaos/record"
)

const (
	startTimeout = 2 * time.Minute
	pollPause    = 10 * time.Millisecond
)

// Binaries has the paths of the programs.
type Binaries struct{ Etcd, Etcdutl, NATS, Apiserver, Watcher string }

// Build builds the programs, and further ones of this repository, into dir. It must be called in
// the repository's root.
func Build(ctx context.Context, dir string, race bool, further ...string) (Binaries, error) {
	b := Binaries{
		Etcd: filepath.Join(dir, "etcd"), Etcdutl: filepath.Join(dir, "etcdutl"), NATS: filepath.Join(dir, "nats-server"),
		Apiserver: filepath.Join(dir, "apiserver"), Watcher: filepath.Join(dir, "watcher"),
	}
	own := []string{"build"}
	if race {
		own = append(own, "-race")
	}
	for _, step := range []struct {
		folder string
		args   []string
	}{
		{".", append(append(own, "-o", dir+"/", "./cmd/apiserver", "./test/chaos/watcher"), further...)},
		{".", []string{"build", "-o", b.Etcd, "./bench/apiserver/etcd"}},
		{".", []string{"build", "-o", b.NATS, "github.com/nats-io/nats-server/v2"}},
		{"tools/etcdutl", []string{"build", "-o", b.Etcdutl, "go.etcd.io/etcd/etcdutl/v3"}},
	} {
		build := exec.CommandContext(ctx, "go", step.args...)
		build.Dir, build.Stderr = step.folder, os.Stderr
		if err := build.Run(); err != nil {
			return b, fmt.Errorf("building the programs, which must run in the repository's root: go %v: %w", step.args, err)
		}
	}
	return b, nil
}

// Config is the configuration of a plane.
type Config struct {
	Binaries Binaries
	// Dir is the folder for all data and logs.
	Dir string
	// NATS is the number of NATS servers, Apiservers the number of apiservers.
	NATS, Apiservers int
	// Random decides what proxies spoil; if it is nil, connections have no proxies.
	Random *rand.Rand
	// NATSSettings are additional lines of the NATS servers' configuration, ApiserverFlags
	// additional flags of the apiservers.
	NATSSettings   string
	ApiserverFlags []string
	// OnEvent is called with the events that informers report.
	OnEvent func(record.Event)
}

// Plane is the running programs, and the connections between them.
type Plane struct {
	cfg        Config
	Etcd       *Etcd
	NATS       []*NATS
	Apiservers []*Apiserver
	Watchers   []*Watcher
}

// Start starts etcd, NATS and apiservers, and returns when they are ready. Close ends what has
// started, even after an error.
func Start(ctx context.Context, cfg Config) (*Plane, error) {
	p := &Plane{cfg: cfg}
	var err error
	if p.Etcd, err = newEtcd(ctx, cfg); err != nil {
		return p, err
	}
	if err := p.placeNATS(ctx); err != nil {
		return p, err
	}
	if err := os.WriteFile(p.tokenFile(), []byte(Token+",chaos,chaos,system:masters\n"), 0o600); err != nil {
		return p, fmt.Errorf("writing the token of the informers: %w", err)
	}
	for i := range cfg.Apiservers {
		a, err := p.newApiserver(ctx, i)
		if err != nil {
			return p, err
		}
		p.Apiservers = append(p.Apiservers, a)
		// Start them one by one: the first creates the keys of all.
		if err := a.Start(ctx); err != nil {
			return p, err
		}
	}
	return p, p.startNATS(ctx)
}

// Token authenticates informers to NATS.
const Token = "chaos-informers"

func (p *Plane) tokenFile() string { return filepath.Join(p.cfg.Dir, "tokens.csv") }

// keysFolder is the apiservers' folder of keys.
const keysFolder = "pki"

func (p *Plane) keys() string { return filepath.Join(p.cfg.Dir, keysFolder) }

// Close ends everything.
func (p *Plane) Close() {
	for _, w := range p.Watchers {
		w.Close()
	}
	for _, a := range p.Apiservers {
		a.process.Kill()
		closeAll(a.Proxies)
	}
	for _, n := range p.NATS {
		n.process.Kill()
	}
	if p.Etcd != nil {
		p.Etcd.close()
	}
}

// Died returns an error that names the programs that ended by themselves.
func (p *Plane) Died() error {
	errs := []error{p.Etcd.process.Died()}
	for _, n := range p.NATS {
		errs = append(errs, n.process.Died())
	}
	for _, a := range p.Apiservers {
		errs = append(errs, a.process.Died())
	}
	for _, w := range p.Watchers {
		errs = append(errs, w.process.Died())
	}
	return errors.Join(errs...)
}

// Leader returns the apiserver that publishes.
func (p *Plane) Leader(ctx context.Context) (*Apiserver, error) {
	var found *Apiserver
	err := poll(ctx, "an apiserver that publishes", func(ctx context.Context) error {
		for _, a := range p.Apiservers {
			if a.process.Running() && a.leads(ctx) {
				found = a
				return nil
			}
		}
		return errors.New("no apiserver reports that it publishes")
	})
	return found, err
}

// URLs returns the URLs of the NATS servers, bypassing all proxies.
func (p *Plane) URLs() []string {
	var urls []string
	for _, n := range p.NATS {
		urls = append(urls, "nats://"+n.address)
	}
	return urls
}

// ways creates a proxy to each NATS server, if proxies are wanted, and returns the URLs to use.
func (p *Plane) ways(ctx context.Context) (proxies []*proxy.Proxy, urls []string, err error) {
	if p.cfg.Random == nil {
		return nil, p.URLs(), nil
	}
	for _, n := range p.NATS {
		way, err := proxy.New(ctx, n.address, rand.New(rand.NewPCG(p.cfg.Random.Uint64(), 1)))
		if err != nil {
			closeAll(proxies)
			return nil, nil, err
		}
		proxies, urls = append(proxies, way), append(urls, "nats://"+way.Address())
	}
	return proxies, urls, nil
}

func closeAll(proxies []*proxy.Proxy) {
	for _, way := range proxies {
		way.Close()
	}
}

// poll retries until try succeeds, for at most two minutes.
func poll(ctx context.Context, what string, try func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(pollPause)
	defer tick.Stop()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		if errors.Is(err, errDied) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, err)
		}
	}
}

// FreePort returns a port on which no process listens now. It is below the range that the system
// uses for outgoing connections, so none of those takes it a moment later.
func FreePort(ctx context.Context) (int, error) {
	var err error
	for range 1000 {
		port := 10_000 + rand.IntN(20_000)
		var listener net.Listener
		if listener, err = new(net.ListenConfig).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, listener.Close()
		}
	}
	return 0, fmt.Errorf("looking for a free port: %w", err)
}

func listening(ctx context.Context, address string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// Client returns the etcd client.
func (p *Plane) Client() *clientv3.Client { return p.Etcd.Client }

// Configs returns the configurations of clients of the apiservers.
func (p *Plane) Configs() []*rest.Config {
	var all []*rest.Config
	for _, a := range p.Apiservers {
		all = append(all, a.API)
	}
	return all
}
