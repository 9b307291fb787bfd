package project

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Crash kills the process of one container as the kernel would, so that Docker restarts it
// according to its restart policy. (A container killed by Kill stays down.) It needs root.
func (p *Project) Crash(ctx context.Context, service string, number int) error {
	container := p.container(service, number)
	printed, err := p.docker(ctx, "inspect", "--format", "{{.State.Pid}}", container)
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(printed))
	if err != nil || pid <= 1 {
		return fmt.Errorf("the container %s has no process: %q", container, printed)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("killing process %d of %s: %w", pid, container, err)
	}
	return nil
}

// Tag tags an image with another name.
func (p *Project) Tag(ctx context.Context, image, name string) error {
	_, err := p.docker(ctx, "tag", image, name)
	return err
}

// Replace recreates a service's containers with other settings, which remain in effect, and waits
// until they are healthy.
func (p *Project) Replace(ctx context.Context, service string, settings map[string]string) error {
	maps.Copy(p.cfg.Settings, settings)
	return p.Up(ctx, "--no-deps", service)
}

// Stop stops services' containers without removing them.
func (p *Project) Stop(ctx context.Context, services ...string) error {
	_, err := p.compose(ctx, append([]string{"stop"}, services...)...)
	return err
}

// RestoreEtcd replaces the content of the single etcd, which must not run, with a snapshot. The
// previous data is kept in the same volume.
func (p *Project) RestoreEtcd(ctx context.Context, snapshot string) error {
	image, err := p.docker(ctx, "inspect", "--format", "{{.Config.Image}}", p.container("etcd", 1))
	if err != nil {
		return err
	}
	volume := p.cfg.Name + "_etcd:/data"
	before := fmt.Sprint("/data/before-", time.Now().Unix())
	if _, err := p.docker(ctx, "run", "--rm", "--user", "65532:65532", "--volume", volume, "--entrypoint", "mv",
		"debian:bookworm-slim", "/data/etcd", before); err != nil {
		return err
	}
	_, err = p.docker(ctx, "run", "--rm", "--user", "0:0", "--volume", volume, "--volume", snapshot+":/snapshot.db:ro", "--entrypoint", "etcdutl",
		strings.TrimSpace(image), "snapshot", "restore", "/snapshot.db", "--bump-revision", "1000000000", "--mark-compacted", "--data-dir", "/data/etcd",
		"--name", "etcd", "--initial-cluster", "etcd=https://etcd:2380", "--initial-cluster-token", "garboard", "--initial-advertise-peer-urls", "https://etcd:2380")
	if err != nil {
		return err
	}
	_, err = p.docker(ctx, "run", "--rm", "--volume", volume, "--entrypoint", "chown", "debian:bookworm-slim", "-R", "65532:65532", "/data/etcd")
	return err
}
