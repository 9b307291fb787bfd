// Package plane runs etcd, NATS and apiservers for benchmarks: Garboard's, and a kube-apiserver beside them.
package plane

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/garboard/garboard/bench/command"
	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/embedded"
)

const (
	startTimeout = 5 * time.Minute
	endTimeout   = 30 * time.Second
	pollPause    = 5 * time.Millisecond
)

// user is the one user of NATS, and its password.
const user = "bench"

// Plane is an etcd in its own process and NATS in this process, for apiservers of their own processes.
type Plane struct {
	dir       string
	binary    string
	etcd      *exec.Cmd
	etcdInput io.Closer
	etcdURL   string
	natsURL   string
	stopNATS  func()
}

// New starts etcd and NATS with their data in dir. It builds etcd and, if binary is empty, the apiserver.
func New(ctx context.Context, binary, dir string) (*Plane, error) {
	p := &Plane{dir: dir, binary: binary, stopNATS: func() {}}
	packages := []string{"./bench/apiserver/etcd"}
	if binary == "" {
		p.binary = filepath.Join(dir, "apiserver")
		packages = append(packages, "./cmd/apiserver")
	}
	build := exec.CommandContext(ctx, "go", append([]string{"build", "-o", dir + "/"}, packages...)...)
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("building the servers, which must run in the repository's root: %w", err)
	}
	if err := p.startEtcd(); err != nil {
		p.Close()
		return nil, err
	}
	if err := p.startNATS(ctx); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *Plane) startEtcd() error {
	p.etcd = exec.Command(filepath.Join(p.dir, "etcd"), "-dir", filepath.Join(p.dir, "etcd-data"), "-pprof")
	p.etcd.Stderr = os.Stderr
	input, err := p.etcd.StdinPipe()
	if err != nil {
		return fmt.Errorf("starting etcd: %w", err)
	}
	output, err := p.etcd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("starting etcd: %w", err)
	}
	if err := p.etcd.Start(); err != nil {
		return fmt.Errorf("starting etcd: %w", err)
	}
	p.etcdInput = input
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		return fmt.Errorf("waiting for etcd: %w", err)
	}
	p.etcdURL = strings.TrimSpace(line)
	return nil
}

func (p *Plane) startNATS(ctx context.Context) error {
	server, err := embedded.New(embedded.Config{
		Port: embedded.RandomPort, StoreDir: filepath.Join(p.dir, "nats"), User: user, Password: user,
	})
	if err != nil {
		return err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Run(running); err != nil {
			fmt.Fprintln(os.Stderr, "NATS:", err)
		}
	}()
	p.stopNATS = func() { cancel(); <-ended }
	if err := server.Ready(ctx); err != nil {
		return err
	}
	p.natsURL = server.URL()
	return nil
}

// NATS returns how to connect to the plane's NATS.
func (p *Plane) NATS() bus.Config {
	return bus.Config{URLs: []string{p.natsURL}, Name: "bench", User: user, Password: user}
}

// Server returns an apiserver of the plane, which does not run yet.
func (p *Plane) Server(ctx context.Context, name string) (*Server, error) {
	address, err := command.FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(p.dir, name+".kubeconfig")
	return &Server{
		binary: p.binary, log: filepath.Join(p.dir, name+".log"), kubeconfig: kubeconfig, writes: true, etcd: p.etcd,
		args: []string{
			"--listen", address, "--cert-dir", filepath.Join(p.dir, "pki"), "--etcd-servers", p.etcdURL, "--nats-servers", p.natsURL,
			"--bus-auth=false", "--nats-user", user, "--nats-password", user, "--write-kubeconfig", kubeconfig,
		},
	}, nil
}

// Close ends etcd and NATS. The servers must have ended before.
func (p *Plane) Close() {
	if p.etcdInput != nil {
		_ = p.etcdInput.Close()
		_ = p.etcd.Wait()
	}
	p.stopNATS()
}
