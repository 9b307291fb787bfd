// Package consistency compares the watch caches with etcd while the apiserver runs, as kube-apiserver does with its
// feature DetectCacheInconsistency. A cache that differs is read anew.
package consistency

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// period is the mean time between two comparisons of a kind, as in Kubernetes.
const period = 6 * time.Minute

// Cache is the watch cache of a kind.
type Cache interface {
	Read(ctx context.Context, view fabric.View, minimum int64) (feed.Reading, error)
	ReadAnew()
}

// Storage reads what etcd held at a revision.
type Storage interface {
	Scan(ctx context.Context, kind *scheme.Kind, revision int64, take func([]store.Record)) error
}

// Config configures a Checker.
type Config struct {
	// Table is the set of kinds.
	Table *scheme.Table
	// Cache returns the watch cache of a stored kind.
	Cache func(kind *scheme.Kind) Cache
	// Storage is what the caches follow.
	Storage Storage
	// Logger receives the differences.
	Logger *slog.Logger
	// Registerer receives the metrics; if nil there are none.
	Registerer prometheus.Registerer
}

// Checker compares caches with etcd.
type Checker struct {
	cfg    Config
	checks *prometheus.CounterVec
	seed   maphash.Seed
}

// New returns a Checker. Nothing happens before Run.
func New(cfg Config) *Checker {
	c := &Checker{cfg: cfg, seed: maphash.MakeSeed(), checks: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "apiserver_storage_consistency_checks_total",
		Help: "Counter for status of consistency checks between etcd and watch cache",
	}, []string{"group", "resource", "status"})}
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(c.checks)
	}
	return c
}

// Run compares the caches of all kinds, one after the other, every few minutes until ctx ends.
func (c *Checker) Run(ctx context.Context) error {
	for _, kind := range c.cfg.Table.Kinds() {
		c.expose(kind)
	}
	for backoff.Sleep(ctx, backoff.Around(period)) {
		for _, kind := range c.cfg.Table.Kinds() {
			c.expose(kind)
			if kind.Stored() && ctx.Err() == nil {
				c.check(ctx, kind)
			}
		}
	}
	return nil
}

// expose shows that a kind has had no failure: Prometheus sees no increase of a counter that begins with one.
func (c *Checker) expose(kind *scheme.Kind) {
	if kind.Stored() {
		c.checks.WithLabelValues(kind.Group, kind.Resource, "failure")
	}
}

// check compares the cache of one kind, and counts the outcome.
func (c *Checker) check(ctx context.Context, kind *scheme.Kind) {
	cache := c.cfg.Cache(kind)
	difference, err := c.compare(ctx, kind, cache)
	if ctx.Err() != nil || errors.Is(err, scheme.ErrRemoved) {
		return
	}
	status := "success"
	switch {
	case err != nil:
		status = "error"
		c.cfg.Logger.WarnContext(ctx, "cannot compare a watch cache with etcd", "resource", kind.GroupResource().String(), "err", err)
	case difference != "":
		status = "failure"
		c.cfg.Logger.ErrorContext(ctx, "a watch cache differs from etcd and is read anew", "resource", kind.GroupResource().String(), "difference", difference)
		cache.ReadAnew()
	}
	c.checks.WithLabelValues(kind.Group, kind.Resource, status).Inc()
}

// compare returns the first difference between the cache and etcd at the cache's revision; empty if they are equal.
// Values that cannot be read are passed over: the cache has no revision of them.
func (c *Checker) compare(ctx context.Context, kind *scheme.Kind, cache Cache) (difference string, err error) {
	reading, err := cache.Read(ctx, fabric.View{}, 0)
	if err != nil {
		return "", fmt.Errorf("reading the cache: %w", err)
	}
	passed := make(map[string]bool, len(reading.Unreadable))
	for _, key := range reading.Unreadable {
		passed[key] = true
	}
	var cached, stored uint64
	for i := range reading.Items {
		item := &reading.Items[i]
		cached += c.digest(item.Key, item.Object.GetResourceVersion())
	}
	if err := c.scan(ctx, kind, reading.Revision, passed, func(key, revision string) {
		stored += c.digest(key, revision)
	}); err != nil {
		return "", err
	}
	if cached == stored {
		return "", nil
	}
	return c.explain(ctx, kind, reading, passed)
}

// scan visits what etcd held at a revision, but for what is passed over.
func (c *Checker) scan(ctx context.Context, kind *scheme.Kind, revision int64, passed map[string]bool, visit func(key, revision string)) error {
	err := c.cfg.Storage.Scan(ctx, kind, revision, func(records []store.Record) {
		for i := range records {
			if key := keyOf(records[i].Namespace, records[i].Name); !passed[key] {
				visit(key, strconv.FormatInt(records[i].Revision, 10))
			}
		}
	})
	if err != nil {
		return fmt.Errorf("reading etcd at revision %d: %w", revision, err)
	}
	return nil
}

// digest identifies an object at a revision. The sum of the digests identifies a set of them, whatever their order.
func (c *Checker) digest(key, revision string) uint64 {
	return maphash.Comparable(c.seed, [2]string{key, revision})
}

// explain reads etcd once more and returns the first difference that it finds.
func (c *Checker) explain(ctx context.Context, kind *scheme.Kind, reading feed.Reading, passed map[string]bool) (string, error) {
	cached := make(map[string]string, len(reading.Items))
	for i := range reading.Items {
		cached[reading.Items[i].Key] = reading.Items[i].Object.GetResourceVersion()
	}
	found := ""
	if err := c.scan(ctx, kind, reading.Revision, passed, func(key, revision string) {
		if has := cached[key]; has != revision && found == "" {
			found = fmt.Sprintf("at revision %d etcd has %s of revision %s, the cache has revision %q", reading.Revision, key, revision, has)
		}
		delete(cached, key)
	}); err != nil {
		return "", err
	}
	for key, revision := range cached {
		if found == "" {
			found = fmt.Sprintf("at revision %d the cache has %s of revision %s, etcd does not", reading.Revision, key, revision)
		}
	}
	return found, nil
}

// keyOf returns the key that a cache has for an object: that of feed.Item and feed.Reading, with a slash in front of the
// name of an object in no namespace.
func keyOf(namespace, name string) string { return namespace + "/" + name }
