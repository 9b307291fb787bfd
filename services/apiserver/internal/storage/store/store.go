package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/trace"
	"github.com/garboard/garboard/services/apiserver/internal/storage/election"
	"github.com/garboard/garboard/services/apiserver/internal/storage/etcd"
)

const (
	// DefaultPrefix is the key below which kube-apiserver keeps its objects.
	DefaultPrefix = "/registry"
	// DefaultEventTTL is how long kube-apiserver keeps events.
	DefaultEventTTL = time.Hour
)

// Config configures a Store.
type Config struct {
	// Servers are etcd's client URLs; at least one.
	Servers []string
	// CAFile, CertFile and KeyFile are PEM files for TLS; all empty for plain connections.
	CAFile, CertFile, KeyFile string
	// Prefix is the key below which all objects are; DefaultPrefix if empty.
	Prefix string
	// Table is the set of served kinds; required.
	Table *scheme.Table
	// Logger receives what is not returned to any caller; slog.Default if nil.
	Logger *slog.Logger
	// Registerer receives the store's metrics; if nil there are none.
	Registerer prometheus.Registerer
	// Trace records a hop for each commit; may be nil.
	Trace *trace.Recorder
	// EventTTL is how long the store keeps events; DefaultEventTTL if 0.
	EventTTL time.Duration
	// Defaults returns the function that completes a stored kind's objects when they are read: they may
	// have been written by another program, as another version, or before a field existed. Its error
	// means that the object cannot be read at present. It returns nil for a kind without defaults. A nil
	// function means that no kind has any.
	Defaults func(kind *scheme.Kind) func(scheme.Object) error
	// Overrides are the resources with a separate etcd cluster. It is reached with the same
	// certificates and has the same Prefix.
	Overrides []Override
	// DialOptions are added to the connection, for tests that inspect the requests.
	DialOptions []grpc.DialOption
}

// Store reads and writes API objects in etcd. It is safe for concurrent use.
type Store struct {
	etcd     *etcd.Connection
	client   *clientv3.Client // etcd's
	prefix   string           // begins and ends with a slash
	table    *scheme.Table
	logger   *slog.Logger
	trace    *trace.Recorder
	events   *etcd.Leases
	metrics  *metrics
	elect    *election.Elections
	streams  atomic.Int64
	defaults func(kind *scheme.Kind) func(scheme.Object) error
	// leases is the store of the cluster that holds leases, which fence writes; it may be this one.
	// Only that store uses sightings.
	leases    *Store
	sightings sightings
	retained  retained

	// Set in the main store only: the stores of the other clusters.
	overrides []*Store
	others    map[schema.GroupVersionKind]*Store
	cluster   string
}

// Open connects to etcd and to every cluster of Overrides, and waits for their first answers until
// ctx ends. Close must be called.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if len(cfg.Servers) == 0 {
		return nil, errors.New("opening the store: no etcd server given")
	}
	if cfg.Table == nil {
		return nil, errors.New("opening the store: no table of kinds given")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.EventTTL == 0 {
		cfg.EventTTL = DefaultEventTTL
	}
	if cfg.Defaults == nil {
		cfg.Defaults = func(*scheme.Kind) func(scheme.Object) error { return nil }
	}
	others, err := clusters(cfg.Table, cfg.Overrides)
	if err != nil {
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	shared := newMetrics(cfg.Registerer)
	s, err := connect(cfg, shared)
	if err != nil {
		return nil, err
	}
	s.others = map[schema.GroupVersionKind]*Store{}
	for _, c := range others {
		cfg.Servers = c.servers
		other, err := connect(cfg, shared)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		other.cluster = c.name
		s.overrides = append(s.overrides, other)
		for _, kind := range c.kinds {
			s.others[kind] = other
		}
	}
	s.shareLeases()
	if err := s.awaitEtcd(ctx, cfg.Logger); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.registerSizes(cfg.Registerer)
	return s, nil
}

// connect returns the store of one cluster; it does not wait for its etcd.
func connect(cfg Config, shared *metrics) (*Store, error) {
	prefix := normalPrefix(cfg.Prefix)
	connection, err := etcd.Connect(etcd.Config{
		Servers: cfg.Servers, CAFile: cfg.CAFile, CertFile: cfg.CertFile, KeyFile: cfg.KeyFile, Prefix: prefix, Logger: cfg.Logger,
		DialOptions: append([]grpc.DialOption{grpc.WithChainStreamInterceptor(noteStreams)}, cfg.DialOptions...),
	})
	if err != nil {
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	return &Store{
		etcd: connection, client: connection.Client, prefix: prefix, table: cfg.Table, logger: cfg.Logger, trace: cfg.Trace,
		events: etcd.NewLeases(connection.Client, cfg.EventTTL), metrics: shared, elect: election.New(connection.Client, prefix, cfg.Logger),
		defaults: cfg.Defaults,
	}, nil
}

// Close closes the connections to etcd. No call may be in progress or follow.
func (s *Store) Close() error {
	var errs []error
	for _, one := range s.Clusters() {
		if err := one.etcd.Close(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// openAttempts is how often Open tries an etcd that does not answer, each time for etcd.ReadPatience:
// etcd may be starting too, or be slow on a busy machine.
const openAttempts = 6

func (s *Store) awaitEtcd(ctx context.Context, log *slog.Logger) error {
	for attempt := 1; ; attempt++ {
		err := s.Ready(ctx)
		if err == nil || attempt == openAttempts || ctx.Err() != nil {
			return err
		}
		log.Warn("waiting for etcd", "attempt", attempt, "of", openAttempts, "err", err)
	}
}

// Ready returns nil if every etcd cluster answers a linearizable read, that is, if it has a leader.
func (s *Store) Ready(ctx context.Context) error {
	for _, one := range s.Clusters() {
		if _, err := one.Revision(ctx); err != nil {
			return fmt.Errorf("etcd at %s does not answer: %w", strings.Join(one.client.Endpoints(), ", "), err)
		}
	}
	return nil
}

// RevisionOf returns the Revision of the cluster that holds kind's objects.
func (s *Store) RevisionOf(ctx context.Context, kind *scheme.Kind) (int64, error) {
	return s.Of(kind).Revision(ctx)
}

// Revision returns the current revision of the store's own cluster, by a linearizable read: every
// write that was acknowledged before the call is at or below it.
func (s *Store) Revision(ctx context.Context) (int64, error) { return s.etcd.Revision(ctx) }

func normalPrefix(prefix string) string {
	if prefix == "" {
		prefix = DefaultPrefix
	}
	cleaned := path.Join("/", prefix)
	if cleaned == "/" {
		return cleaned
	}
	return cleaned + "/"
}

// key returns the etcd key of an object; a BadRequest API error if a name could escape its place.
func (s *Store) key(kind *scheme.Kind, namespace, name string) (string, error) {
	if kind.Namespaced {
		if err := checkSegment("Namespace", namespace); err != nil {
			return "", err
		}
	}
	if err := checkSegment("Name", name); err != nil {
		return "", err
	}
	return s.prefix + kind.Key(namespace, name), nil
}

// rangePrefix returns the prefix of the keys of a kind, or of one namespace of it.
func (s *Store) rangePrefix(kind *scheme.Kind, namespace string) (string, error) {
	prefix := s.prefix + kind.StoragePrefix + "/"
	if !kind.Namespaced || namespace == "" {
		return prefix, nil
	}
	if err := checkSegment("Namespace", namespace); err != nil {
		return "", err
	}
	return prefix + namespace + "/", nil
}

// split splits a key of kind; ok is false if it is not one.
func (s *Store) split(kind *scheme.Kind, key string) (namespace, name string, ok bool) {
	rest, ok := strings.CutPrefix(key, s.prefix+kind.StoragePrefix+"/")
	if !ok || rest == "" {
		return "", "", false
	}
	if kind.Namespaced {
		namespace, rest, ok = strings.Cut(rest, "/")
		if !ok || namespace == "" || rest == "" {
			return "", "", false
		}
	}
	return namespace, rest, !strings.Contains(rest, "/")
}
