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
	// DefaultMaxSize is the size in bytes above which a log is rotated: 10 MiB.
	DefaultMaxSize = 10 << 20
	// DefaultMaxFiles is the number of log files of a container, including the current one.
	DefaultMaxFiles = 5
	// period is the interval between checks of the logs.
	period = 10 * time.Second
)

// stamp is the time format of the suffix of a rotated log; suffixes sort by time.
const stamp = "20060102-150405.000"

// Config configures a Rotator.
type Config struct {
	// Reopen makes the runtime reopen the log of a running container.
	Reopen func(ctx context.Context, containerID string) error
	// Containers returns the node's containers; only those that run are rotated.
	Containers func() []runtime.Container
	// MaxSize and MaxFiles are the defaults above when 0; MaxFiles is at least 2.
	MaxSize  int64
	MaxFiles int
	Logger   *slog.Logger
}

// Rotator rotates logs.
type Rotator struct{ cfg Config }

// New returns a Rotator.
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

// Run rotates logs until ctx ends. If a rotation fails, it logs that and retries in the next
// period.
func (r *Rotator) Run(ctx context.Context) error {
	tick := time.NewTicker(period)
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
					"namespace", c.Namespace, "name", c.PodName, "container", c.Name, "err", err)
			}
		}
	}
}

// rotate rotates the log of one running container if it is too large.
func (r *Rotator) rotate(ctx context.Context, c *runtime.Container) error {
	info, err := os.Stat(c.LogPath)
	if errors.Is(err, fs.ErrNotExist) {
		// An earlier agent was killed between renaming the log and reopening it.
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
		// The runtime keeps writing to the renamed file, so it gets its name back.
		return errors.Join(err, os.Rename(renamed, c.LogPath))
	}
	return nil
}

func (r *Rotator) reopen(ctx context.Context, c *runtime.Container) error {
	err := r.cfg.Reopen(ctx, c.ID)
	if errors.Is(err, runtime.ErrNotFound) {
		return nil // The container was removed meanwhile.
	}
	return err
}
