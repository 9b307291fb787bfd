package logrotate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

// The kubelet's defaults.
const (
	// DefaultMaxSize is how many bytes a log may have before it is rotated: 10 MiB.
	DefaultMaxSize = 10 << 20
	// DefaultMaxFiles is how many files a container's log has, the one that is written included.
	DefaultMaxFiles = 5
	// Period is how often the logs are looked at.
	Period = 10 * time.Second
)

// stamp is what a renamed log gets behind its name; in the order of time when sorted.
const stamp = "20060102-150405.000"

// Config is what a Rotator needs.
type Config struct {
	// Reopen makes the runtime open the log of a running container anew.
	Reopen func(ctx context.Context, containerID string) error
	// Containers are the containers of the node; those that do not run are left alone.
	Containers func() []runtime.Container
	// MaxSize and MaxFiles are the defaults above when 0; MaxFiles is at least 2.
	MaxSize  int64
	MaxFiles int
	Logger   *slog.Logger
}

// Rotator rotates logs.
type Rotator struct{ cfg Config }

// New makes a Rotator.
func New(cfg Config) *Rotator {
	if cfg.MaxSize == 0 {
		cfg.MaxSize = DefaultMaxSize
	}
	if cfg.MaxFiles == 0 {
		cfg.MaxFiles = DefaultMaxFiles
	}
	cfg.MaxFiles = max(cfg.MaxFiles, 2)
	return &Rotator{cfg: cfg}
}

// Run rotates logs until ctx ends. A log that cannot be rotated is logged and tried again.
func (r *Rotator) Run(ctx context.Context) error {
	tick := time.NewTicker(Period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for _, c := range r.cfg.Containers() {
			if c.State != runtime.Running || c.LogPath == "" {
				continue
			}
			if err := r.rotate(ctx, &c); err != nil && ctx.Err() == nil {
				r.cfg.Logger.Error("rotating a container's log failed",
					"pod", c.Namespace+"/"+c.PodName, "container", c.Name, "error", err)
			}
		}
	}
}

// rotate looks after the log of one running container.
func (r *Rotator) rotate(ctx context.Context, c *runtime.Container) error {
	info, err := os.Stat(c.LogPath)
	if errors.Is(err, fs.ErrNotExist) {
		// An agent that was killed after renaming it did not come to this.
		return r.reopen(ctx, c)
	}
	if err != nil {
		return err
	}
	if info.Size() <= r.cfg.MaxSize {
		return nil
	}
	old, err := filepath.Glob(c.LogPath + ".*")
	if err != nil {
		return fmt.Errorf("finding the older files of the log %s: %w", c.LogPath, err)
	}
	slices.Sort(old)
	for len(old) > r.cfg.MaxFiles-2 {
		if err := os.Remove(old[0]); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing an old log: %w", err)
		}
		old = old[1:]
	}
	renamed := c.LogPath + "." + time.Now().UTC().Format(stamp)
	if err := os.Rename(c.LogPath, renamed); err != nil {
		return err
	}
	if err := r.reopen(ctx, c); err != nil {
		// The runtime goes on writing to the file: under its own name it is still found.
		return errors.Join(err, os.Rename(renamed, c.LogPath))
	}
	return nil
}

func (r *Rotator) reopen(ctx context.Context, c *runtime.Container) error {
	err := r.cfg.Reopen(ctx, c.ID)
	if errors.Is(err, runtime.ErrNotFound) {
		return nil // It went meanwhile.
	}
	return err
}
