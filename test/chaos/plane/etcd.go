package plane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/logutil"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// etcdTimeout bounds a call from the harness to etcd.
const etcdTimeout = 10 * time.Second

// Etcd is an etcd server.
type Etcd struct {
	// Client is connected to it whenever it runs.
	Client *clientv3.Client

	binaries Binaries
	dir      string
	url      string
	lives    int
	process  *Process
}

func newEtcd(ctx context.Context, cfg Config) (*Etcd, error) {
	port, err := FreePort(ctx)
	if err != nil {
		return nil, err
	}
	e := &Etcd{binaries: cfg.Binaries, dir: cfg.Dir, url: fmt.Sprintf("http://127.0.0.1:%d", port)}
	e.process = NewProcess("etcd", cfg.Dir, []string{cfg.Binaries.Etcd, "-dir", e.data(), "-listen", e.url}, nil)
	if err := e.process.Start(); err != nil {
		return nil, err
	}
	// Outages of etcd are expected, so the client must not log them.
	quiet, err := logutil.CreateDefaultZapLogger(logutil.ConvertToZapLevel("fatal"))
	if err == nil {
		e.Client, err = clientv3.New(clientv3.Config{Endpoints: []string{e.url}, Logger: quiet, DialTimeout: etcdTimeout,
			DialKeepAliveTime: 5 * time.Second})
	}
	if err != nil {
		e.process.Kill()
		return nil, fmt.Errorf("creating an etcd client: %w", err)
	}
	return e, e.wait(ctx)
}

// PID returns the process's ID.
func (e *Etcd) PID() int { return e.process.PID() }

// URL returns etcd's client URL.
func (e *Etcd) URL() string { return e.url }

func (e *Etcd) data() string { return filepath.Join(e.dir, fmt.Sprintf("etcd-%d", e.lives)) }

func (e *Etcd) close() {
	if e.Client != nil {
		_ = e.Client.Close()
	}
	e.process.Kill()
}

// wait waits until etcd answers.
func (e *Etcd) wait(ctx context.Context) error {
	return poll(ctx, "etcd", func(ctx context.Context) error {
		if err := e.process.Died(); err != nil {
			return err
		}
		_, err := e.Revision(ctx)
		return err
	})
}

// Revision returns the current revision, by a linearizable read.
func (e *Etcd) Revision(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	resp, err := e.Client.Get(ctx, "revision", clientv3.WithKeysOnly())
	if err != nil {
		return 0, fmt.Errorf("reading etcd's revision: %w", err)
	}
	return resp.Header.Revision, nil
}

// Kill ends etcd abruptly, like a power failure.
func (e *Etcd) Kill() { e.process.Kill() }

// Restart starts etcd again and waits until it answers.
func (e *Etcd) Restart(ctx context.Context) error {
	if err := e.process.Start(); err != nil {
		return err
	}
	return e.wait(ctx)
}

// Snapshot saves etcd's content to a file.
func (e *Etcd) Snapshot(ctx context.Context, file string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	from, err := e.Client.Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("taking a snapshot of etcd: %w", err)
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := os.OpenFile(file, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("taking a snapshot of etcd: %w", err)
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	if _, err := io.Copy(to, from); err != nil {
		return fmt.Errorf("taking a snapshot of etcd: %w", err)
	}
	return nil
}

// Restore replaces the content of etcd, which must not run, with a snapshot. raise is the number by
// which revisions are raised, with everything below marked as compacted; 0 leaves both unchanged.
func (e *Etcd) Restore(ctx context.Context, file string, raise int) error {
	e.lives++
	const peer = "http://127.0.0.1:0"
	args := []string{"snapshot", "restore", file, "--data-dir", e.data(), "--name", "default", "--initial-cluster", "default=" + peer, "--initial-advertise-peer-urls", peer}
	if raise > 0 {
		args = append(args, "--bump-revision", fmt.Sprint(raise), "--mark-compacted")
	}
	if output, err := exec.CommandContext(ctx, e.binaries.Etcdutl, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("restoring etcd from %s: %w\n%s", file, err, output)
	}
	e.process.command[2] = e.data()
	return nil
}
