package store

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/trace"
)

const (
	// DefaultPrefix is the key below which kube-apiserver keeps its objects.
	DefaultPrefix = "/registry"
	// DefaultEventTTL is how long kube-apiserver keeps events.
	DefaultEventTTL = time.Hour

	dialTimeout = 5 * time.Second
	// A member that is stopped but not dead keeps its connections, and requests to it wait until a
	// ping goes unanswered. gRPC does not ping more often than this.
	keepAliveTime    = 10 * time.Second
	keepAliveTimeout = 3 * time.Second
)

// reconnecting returns the back-off for members that were away. gRPC would wait up to two minutes,
// and so would the users of a plane whose etcd is already back.
func reconnecting() grpc.DialOption {
	return grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 500 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
		MinConnectTimeout: dialTimeout,
	})
}

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
	// Defaults returns the function that applies a stored kind's defaults to objects that are read,
	// since an object may have been written by another program, or before a field existed. It
	// returns nil for a kind without defaults. A nil function means that no kind has any.
	Defaults func(kind *scheme.Kind) func(scheme.Object)
	// Overrides are the resources with a separate etcd cluster. It is reached with the same
	// certificates and has the same Prefix.
	Overrides []Override
	// DialOptions are added to the connection, for tests that inspect the requests.
	DialOptions []grpc.DialOption
}

// Store reads and writes API objects in etcd. It is safe for concurrent use.
type Store struct {
	client   *clientv3.Client
	dial     clientv3.Config // what client was made from
	prefix   string          // begins and ends with a slash
	table    *scheme.Table
	logger   *slog.Logger
	trace    *trace.Recorder
	events   *leaseSharer
	metrics  *metrics
	identity string
	streams  atomic.Int64
	defaults func(kind *scheme.Kind) func(scheme.Object)
	// leases is the store of the cluster that holds leases, which fence writes; it may be this one.
	// Only that store uses sightings.
	leases    *Store
	sightings sightings

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
		cfg.Defaults = func(*scheme.Kind) func(scheme.Object) { return nil }
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
	tlsConfig, err := cfg.tls()
	if err != nil {
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	dial := clientv3.Config{
		Logger:               quietLogger(cfg.Logger),
		Endpoints:            cfg.Servers,
		TLS:                  tlsConfig,
		DialTimeout:          dialTimeout,
		DialKeepAliveTime:    keepAliveTime,
		DialKeepAliveTimeout: keepAliveTimeout,
		DialOptions:          append([]grpc.DialOption{reconnecting(), grpc.WithChainStreamInterceptor(noteStreams)}, cfg.DialOptions...),
	}
	client, err := clientv3.New(dial)
	if err != nil {
		return nil, fmt.Errorf("connecting to etcd at %s: %w", strings.Join(cfg.Servers, ", "), err)
	}
	return &Store{
		client: client, dial: dial, prefix: normalPrefix(cfg.Prefix), table: cfg.Table, logger: cfg.Logger, trace: cfg.Trace,
		events: newLeaseSharer(client, cfg.EventTTL), metrics: shared, identity: identity(),
		defaults: cfg.Defaults,
	}, nil
}

// Close closes the connections to etcd. No call may be in progress or follow.
func (s *Store) Close() error {
	var errs []error
	for _, one := range s.Clusters() {
		if err := one.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
			errs = append(errs, fmt.Errorf("closing the connection to etcd: %w", err))
		}
	}
	return errors.Join(errs...)
}

// openAttempts is how often Open tries an etcd that does not answer, each time for readPatience:
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
func (s *Store) Revision(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	resp, err := s.client.Get(ctx, s.prefix, clientv3.WithCountOnly())
	if err != nil {
		return 0, fmt.Errorf("reading etcd's revision: %w", statusOf(err))
	}
	return resp.Header.Revision, nil
}

func (cfg Config) tls() (*tls.Config, error) {
	if cfg.CAFile == "" && cfg.CertFile == "" && cfg.KeyFile == "" {
		return nil, nil
	}
	result := &tls.Config{MinVersion: tls.VersionTLS12}
	if cfg.CAFile != "" {
		pem, err := os.ReadFile(cfg.CAFile)
		if err != nil {
			return nil, fmt.Errorf("reading etcd's CA: %w", err)
		}
		result.RootCAs = x509.NewCertPool()
		if !result.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("reading etcd's CA: %s contains no certificate", cfg.CAFile)
		}
	}
	if cfg.CertFile != "" || cfg.KeyFile != "" {
		// Read the files at each connect, since they may have been renewed.
		read := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			cert, err := tls.LoadX509KeyPair(cfg.CertFile, cfg.KeyFile)
			if err != nil {
				return nil, fmt.Errorf("reading the certificate for etcd: %w", err)
			}
			return &cert, nil
		}
		if _, err := read(nil); err != nil {
			return nil, err
		}
		result.GetClientCertificate = read
	}
	return result, nil
}

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
