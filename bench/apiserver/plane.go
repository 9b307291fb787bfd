package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/garboard/garboard/bench/command"
	"github.com/garboard/garboard/bench/measure"
	"github.com/garboard/garboard/libs/bus/embedded"
)

const (
	startTimeout = 2 * time.Minute
	endTimeout   = 30 * time.Second
	pollPause    = 5 * time.Millisecond
)

// plane is an apiserver and an etcd, each in its own process, and NATS in this process.
type plane struct {
	dir       string
	binary    string
	address   string
	etcd      *exec.Cmd
	etcdInput io.Closer
	etcdURL   string
	natsURL   string
	stopNATS  func()
	apiserver *exec.Cmd
	started   time.Duration // duration of the last start
}

// newPlane builds the programs and starts etcd and NATS.
func newPlane(ctx context.Context, binary, dir string) (*plane, error) {
	p := &plane{dir: dir, binary: binary, stopNATS: func() {}}
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
	address, err := command.FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	p.address = address
	if err := p.startEtcd(); err != nil {
		p.close()
		return nil, err
	}
	if err := p.startNATS(ctx); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *plane) startEtcd() error {
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

func (p *plane) startNATS(ctx context.Context) error {
	server, err := embedded.New(embedded.Config{Port: embedded.RandomPort, StoreDir: filepath.Join(p.dir, "nats")})
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

// restart starts the apiserver, after stopping a running one, and waits until it is ready.
func (p *plane) restart(ctx context.Context) (*rest.Config, error) {
	p.stop()
	kubeconfig := filepath.Join(p.dir, "kubeconfig")
	if err := os.RemoveAll(kubeconfig); err != nil {
		return nil, err
	}
	p.apiserver = exec.Command(p.binary, "--listen", p.address, "--cert-dir", filepath.Join(p.dir, "pki"),
		"--etcd-servers", p.etcdURL, "--nats-servers", p.natsURL, "--write-kubeconfig", kubeconfig)
	log, err := os.OpenFile(filepath.Join(p.dir, "apiserver.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the apiserver's log: %w", err)
	}
	defer func() { _ = log.Close() }()
	p.apiserver.Stdout, p.apiserver.Stderr = log, log
	began := time.Now()
	if err := p.apiserver.Start(); err != nil {
		p.apiserver = nil
		return nil, fmt.Errorf("starting the apiserver: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(pollPause)
	defer tick.Stop()
	for {
		// The apiserver writes it when it is ready.
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err == nil && ready(ctx, config) {
			p.started = time.Since(began)
			return config, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			text, _ := os.ReadFile(log.Name())
			return nil, fmt.Errorf("the apiserver does not become ready; its log ends with\n%s", text[max(0, len(text)-2000):])
		}
	}
}

func ready(ctx context.Context, config *rest.Config) bool {
	client, err := (&target{config: config}).client("application/json")
	return err == nil && client.Get().AbsPath("/readyz").Do(ctx).Error() == nil
}

func (p *plane) processes() []measure.Process {
	return []measure.Process{{Name: "apiserver", PID: p.apiserver.Process.Pid}, {Name: "etcd", PID: p.etcd.Process.Pid}}
}

// stop stops the apiserver.
func (p *plane) stop() {
	if p.apiserver == nil {
		return
	}
	end(p.apiserver)
	p.apiserver = nil
}

// end stops a process, by force if it does not exit.
func end(command *exec.Cmd) {
	_ = command.Process.Signal(syscall.SIGTERM)
	force := time.AfterFunc(endTimeout, func() { _ = command.Process.Kill() })
	defer force.Stop()
	if err := command.Wait(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", command.Path, err)
	}
}

func (p *plane) close() {
	p.stop()
	if p.etcdInput != nil {
		_ = p.etcdInput.Close()
		_ = p.etcd.Wait()
	}
	p.stopNATS()
}
