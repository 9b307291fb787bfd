// Package manifests loads the configurations of admission plugins from files: webhooks, policies and
// bindings that no user of the API can change. Requests find changed files within a second.
package manifests

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/libs/scheme"
)

// every is how long files may be out of date: a request that comes later reads them again.
const every = time.Second

// Config says where the files of one plugin are. Dir and Plugin are required.
type Config struct {
	// Dir is the folder of the files: an absolute path.
	Dir string
	// Plugin is the name of the plugin.
	Plugin string
	// Policies says that the plugin's configurations are policies and bindings; otherwise they are webhooks.
	Policies bool
	// Mutating says that they belong to the mutating plugin, which has other kinds.
	Mutating bool
	// Identity names the apiserver; metrics have its hash as a label.
	Identity string
	// Logger receives failed reloads; slog.Default if nil.
	Logger *slog.Logger
	// Registerer registers the metrics; nil for none.
	Registerer prometheus.Registerer
}

// Set is what the files contain. It is immutable.
type Set struct {
	// Objects are complete and valid, policies before bindings, and sorted by name. Their UIDs are
	// those of their set.
	Objects []scheme.Object
	hash    string
}

// Manifests holds the last valid set of a folder. Any goroutine may use it.
type Manifests struct {
	cfg     Config
	metrics *metrics

	current atomic.Pointer[Set]
	next    atomic.Int64 // when the files are read again, in nanoseconds since 1970

	mu   sync.Mutex // held while files are read
	seen string     // the hash of the files, or the error of reading them, at the last time
}

// CheckDir returns Kubernetes' error for a folder that cannot be used; nil if dir is empty.
func CheckDir(dir string) error {
	at := field.NewPath("staticManifestsDir")
	if dir == "" {
		return nil
	}
	if !path.IsAbs(dir) {
		return field.Invalid(at, dir, "must be an absolute file path")
	}
	info, err := os.Stat(dir)
	if err != nil {
		return field.Invalid(at, dir, fmt.Sprintf("unable to read: %v", err))
	}
	if !info.IsDir() {
		return field.Invalid(at, dir, "must be a directory")
	}
	return nil
}

// Open reads the files of a folder. Every file must be valid.
func Open(cfg Config) (*Manifests, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	m := &Manifests{cfg: cfg, metrics: newMetrics(cfg.Registerer, cfg.Plugin, cfg.Identity)}
	set, err := m.read()
	if err != nil {
		what := "webhook"
		if cfg.Policies {
			what = "policy"
		}
		return nil, fmt.Errorf("failed to load static %s manifests from %q: %w", what, cfg.Dir, err)
	}
	m.accept(set)
	m.next.Store(time.Now().Add(every).UnixNano())
	return m, nil
}

// Current returns what the files contained when they were last valid. It reads them again if that was
// not done for a second. A nil Manifests has no set.
func (m *Manifests) Current(ctx context.Context) *Set {
	if m == nil {
		return nil
	}
	now := time.Now()
	// One request reads; the others go on with what there is.
	if due := m.next.Load(); now.UnixNano() >= due && m.next.CompareAndSwap(due, now.Add(every).UnixNano()) && m.mu.TryLock() {
		defer m.mu.Unlock()
		m.reload(ctx)
	}
	return m.current.Load()
}

// reload takes the files if they have changed and are valid.
func (m *Manifests) reload(ctx context.Context) {
	documents, hash, err := readFiles(m.cfg.Dir)
	state := hash
	if err != nil {
		state = err.Error()
	}
	if state == m.seen {
		return
	}
	m.seen = state
	var set *Set
	if err == nil {
		set, err = m.cfg.decode(documents, hash)
	}
	if err != nil {
		m.metrics.reloaded(false)
		m.cfg.Logger.ErrorContext(ctx, "reading admission manifests failed; the previous ones stay in force",
			"plugin", m.cfg.Plugin, "dir", m.cfg.Dir, "err", err)
		return
	}
	m.accept(set)
	m.cfg.Logger.InfoContext(ctx, "admission manifests have changed", "plugin", m.cfg.Plugin, "dir", m.cfg.Dir, "count", len(set.Objects))
}

func (m *Manifests) read() (*Set, error) {
	documents, hash, err := readFiles(m.cfg.Dir)
	if err != nil {
		return nil, err
	}
	m.seen = hash
	return m.cfg.decode(documents, hash)
}

func (m *Manifests) accept(set *Set) {
	m.current.Store(set)
	m.metrics.reloaded(true)
	m.metrics.inForce(set.hash)
}
