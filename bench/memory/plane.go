package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/garboard/garboard/bench/command"
	"github.com/garboard/garboard/bench/measure"
)

const (
	startTimeout = 2 * time.Minute
	endTimeout   = 30 * time.Second
)

// plane is a running `garboard up`.
type plane struct {
	binary   string
	dir      string
	command  *exec.Cmd
	process  measure.Process
	started  time.Duration
	startCPU time.Duration
	read     chan struct{} // closed when all its output is read
}

// startPlane starts a plane, and returns when it is up.
func startPlane(ctx context.Context, binary, dir string) (*plane, error) {
	address, err := command.FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	binary, err = filepath.Abs(binary)
	if err != nil {
		return nil, fmt.Errorf("finding %s: %w", binary, err)
	}
	p := &plane{
		binary: binary, dir: dir, read: make(chan struct{}),
		command: exec.Command(binary, "up", "--data-dir", dir, "--listen", address, "--runtime", "simulated"),
	}
	p.command.Stderr = os.Stderr
	output, err := p.command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting garboard: %w", err)
	}
	began := time.Now()
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("starting garboard: %w", err)
	}
	p.process = measure.Process{Name: "plane", PID: p.command.Process.Pid}
	force := time.AfterFunc(startTimeout, func() { _ = p.command.Process.Kill() })
	lines := bufio.NewScanner(output)
	up := false
	for !up && lines.Scan() {
		up = strings.HasPrefix(lines.Text(), "Garboard is up")
	}
	force.Stop()
	p.started = time.Since(began)
	go func() {
		defer close(p.read)
		_, _ = io.Copy(io.Discard, output)
	}()
	if p.startCPU, err = p.process.CPU(); err == nil && !up {
		err = errors.New("it ended, or did not come up in time")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting garboard: %w", err), p.end())
	}
	return p, nil
}

// get reads a path of the API.
func (p *plane) get(ctx context.Context, path string) ([]byte, error) {
	return p.kubectl(ctx, "", "get", "--raw", path)
}

// kubectl runs kubectl as the administrator, and returns its output.
func (p *plane) kubectl(ctx context.Context, input string, args ...string) ([]byte, error) {
	args = append([]string{
		"kubectl", "--kubeconfig", filepath.Join(p.dir, "admin.kubeconfig"), "--cache-dir", filepath.Join(p.dir, "kubectl"),
	}, args...)
	command := exec.CommandContext(ctx, p.binary, args...)
	command.Stdin, command.Stderr = strings.NewReader(input), os.Stderr
	data, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("running garboard %s: %w", strings.Join(args, " "), err)
	}
	return data, nil
}

// manifest is applied server-side.
const manifest = `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "measured"}, "data": {"key": "value"}}`

// use does what a user does in the first minutes.
func (p *plane) use(ctx context.Context) error {
	for _, command := range []string{
		"create deployment measured --image=nginx --replicas=3",
		"rollout status deployment measured --timeout=1m",
		"apply --server-side -f -",
		"get pods -A",
		"explain deployment.spec",
		"get --raw /openapi/v2",
	} {
		if _, err := p.kubectl(ctx, manifest, strings.Fields(command)...); err != nil {
			return err
		}
	}
	data, err := p.get(ctx, "/openapi/v3")
	if err != nil {
		return err
	}
	var index struct {
		Paths map[string]struct {
			ServerRelativeURL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(data, &index); err != nil {
		return fmt.Errorf("reading the index of OpenAPI v3: %w", err)
	}
	for _, document := range index.Paths {
		if _, err := p.get(ctx, document.ServerRelativeURL); err != nil {
			return err
		}
	}
	return nil
}

// end stops the plane, by force if it does not exit.
func (p *plane) end() error {
	_ = p.command.Process.Signal(syscall.SIGTERM)
	force := time.AfterFunc(endTimeout, func() { _ = p.command.Process.Kill() })
	defer force.Stop()
	<-p.read
	if err := p.command.Wait(); err != nil {
		return fmt.Errorf("stopping garboard: %w", err)
	}
	return nil
}
