package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// upText is what `garboard up` prints when the plane is ready.
	upText = "Garboard is up"
	// startTimeout and stopTimeout bound the plane's start and end.
	startTimeout = 3 * time.Minute
	stopTimeout  = time.Minute
	pollPause    = 100 * time.Millisecond
)

// identify returns a name of the plane to judge: the server in the kubeconfig, or the build of the
// program that will be started. Results count only for the plane from which they came.
func identify(s settings) (string, error) {
	if s.kubeconfig != "" {
		config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
		if err != nil {
			return "", fmt.Errorf("reading -kubeconfig: %w", err)
		}
		return config.Host, nil
	}
	file, err := os.Open(s.garboard)
	if err != nil {
		return "", fmt.Errorf("reading the program of the plane, which `make bin/garboard` builds: %w", err)
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", fmt.Errorf("reading the program of the plane: %w", err)
	}
	name := "garboard up, build " + hex.EncodeToString(sum.Sum(nil)[:6])
	if s.containers {
		name += fmt.Sprintf(" with %d nodes", s.nodes)
	}
	return strings.TrimSpace(name + " " + s.upFlags), nil
}

// plane is a `garboard up` that this program started.
type plane struct {
	kubeconfig string

	data    string
	cmd     *exec.Cmd
	log     *os.File
	exited  chan struct{}
	exitErr error // set before exited is closed
}

// startPlane starts a plane, with one simulated node unless the flags say otherwise, and waits until
// it is ready. Its output goes to a file.
func startPlane(ctx context.Context, binary string, flags []string, log string) (*plane, error) {
	data, err := os.MkdirTemp("", "conformance")
	if err != nil {
		return nil, fmt.Errorf("creating a folder for the plane: %w", err)
	}
	p := &plane{kubeconfig: filepath.Join(data, "admin.kubeconfig"), data: data, exited: make(chan struct{})}
	if p.log, err = os.Create(log); err != nil {
		return nil, errors.Join(fmt.Errorf("creating the plane's log: %w", err), os.RemoveAll(data))
	}
	// Not with ctx: after a signal to this program, specs clean up before the plane ends.
	args := []string{"up", "--data-dir", data, "--listen", listenAddress(), "--runtime", "simulated", "--nodes", "1"}
	p.cmd = exec.Command(binary, append(args, flags...)...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the plane: %w", err), p.log.Close(), os.RemoveAll(data))
	}
	go func() {
		defer close(p.exited)
		p.exitErr = p.cmd.Wait()
	}()
	if err := p.ready(ctx); err != nil {
		p.stop()
		return nil, fmt.Errorf("%w; see %s", err, log)
	}
	return p, nil
}

// listenAddress returns an address at which the API listens: one that pods can reach, so that the
// kubernetes Service has endpoints, if this machine has one.
func listenAddress() string {
	host := "127.0.0.1"
	if address, err := utilnet.ChooseHostInterface(); err == nil {
		host = address.String()
	}
	return net.JoinHostPort(host, "0")
}

// ready waits until the plane has printed that it is up.
func (p *plane) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	ticks := time.NewTicker(pollPause)
	defer ticks.Stop()
	for {
		output, err := os.ReadFile(p.log.Name())
		if err != nil {
			return fmt.Errorf("reading the plane's log: %w", err)
		}
		if bytes.Contains(output, []byte(upText)) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the plane to be up: %w", ctx.Err())
		case <-p.exited:
			return fmt.Errorf("the plane ended during its start: %w", p.exitErr)
		case <-ticks.C:
		}
	}
}

// watch returns a context that ends when the plane does.
func (p *plane) watch(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-p.exited:
			cancel(fmt.Errorf("the plane ended: %w; see %s", p.exitErr, p.log.Name()))
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil); <-done }
}

// stop ends the plane and removes its data.
func (p *plane) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
	_ = p.log.Close()
	_ = os.RemoveAll(p.data)
}
