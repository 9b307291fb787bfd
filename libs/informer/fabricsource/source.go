package fabricsource

import (
	"cmp"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/listwatch"
	"github.com/garboard/garboard/libs/scheme"
)

// Config is the configuration that followers share.
type Config struct {
	// Conn is the connection to the bus.
	Conn *bus.Conn
	// Table decodes objects.
	Table *scheme.Table
	// Client lists views that are too large for an answer, and takes over while no apiserver
	// answers on the bus.
	Client client.Interface
	// WithoutManagers drops metadata.managedFields of protobuf on the bus before it is decoded, and of nothing else.
	WithoutManagers bool
	// Logger may be nil.
	Logger *slog.Logger
	// Registerer, if set, registers the metrics of all followers.
	Registerer prometheus.Registerer
}

// Source creates followers over the bus.
type Source struct {
	conn    *bus.Conn
	table   *scheme.Table
	bare    bool // objects come without their managers of fields
	http    *listwatch.Source
	logger  *slog.Logger
	metrics *metrics
}

var _ informer.Source = (*Source)(nil)

// New creates a source.
func New(cfg Config) *Source {
	logger := cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Source{
		conn: cfg.Conn, table: cfg.Table, bare: cfg.WithoutManagers, http: listwatch.New(cfg.Client, logger),
		logger: logger, metrics: newMetrics(cfg.Registerer),
	}
}

// Follower returns a follower of a view over the bus. A kind that etcd does not store under its own
// name has no watch messages, and is followed over HTTP.
func (s *Source) Follower(kind *scheme.Kind, view informer.View, sink informer.Sink) informer.Follower {
	if !kind.Stored() {
		return s.http.Follower(kind, view, sink)
	}
	resource := kind.GroupResource().String()
	counts := s.metrics.of(resource)
	f := &follower{
		conn: s.conn, http: s.http, kind: kind, view: view, count: counts,
		reader:  reader{table: s.table, kind: kind, view: view, bare: s.bare},
		logger:  s.logger.With("resource", resource),
		machine: newMachine(sink, view == informer.View{}, jitterBelow, counts),
		wake:    make(chan struct{}, 1),
		inbox:   s.conn.NewInbox(),
		clock:   time.Now,
	}
	f.spawn, f.beside = f.work.Go, f.work.Go
	return f
}

func jitterBelow(d time.Duration) time.Duration { return rand.N(max(d, 1)) }
