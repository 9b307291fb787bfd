package publish

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/scheme/perkind"
	"github.com/garboard/garboard/libs/trace"
	"github.com/garboard/garboard/services/apiserver/internal/storage/election"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
)

// publishers is the name of the election among publishers.
const publishers = "publisher"

// Part is the unit of election among publishers: the kinds of one etcd cluster, with a log of their
// own.
type Part struct {
	// Name distinguishes the part from others; empty for the part of the main etcd cluster.
	Name string
	// Storage is the etcd cluster; required.
	Storage Storage
	// Holds reports whether a stored kind belongs to the part. Nil means that all do.
	Holds func(kind *scheme.Kind) bool
	// OpenLog opens the log of all messages. It is called again when the log is lost, and when it has
	// to keep other subjects. Nil means no log.
	OpenLog func(ctx context.Context) (Log, error)
	// Subjects returns the subjects that the log keeps, which may change with the kinds. Nil means
	// that they never change.
	Subjects func() []string
}

func (p Part) election() string { return Election(p.Name) }

// holds reports whether a kind is published as part of p.
func (p Part) holds(kind *scheme.Kind) bool {
	return kind.Stored() && (p.Holds == nil || p.Holds(kind))
}

// Election returns the name of the election among publishers for the part with a name.
func Election(part string) string {
	if part == "" {
		return publishers
	}
	// Not below the other election's name: etcd's elections claim every key below their prefix.
	return publishers + "-" + part
}

// Storage is what a publisher needs of etcd: *store.Store.
type Storage interface {
	Campaign(ctx context.Context, e election.Election, lead func(ctx context.Context) error) error
}

// Bus carries messages: *bus.Conn.
type Bus interface {
	Publish(ctx context.Context, subject string, data []byte) error
	MaxPayload() int64
}

// Log keeps messages: *bus.Log.
type Log interface {
	PublishAsync(subject string, data []byte, msgID string, acked func(error)) error
	Last(ctx context.Context, subject string) (bus.Message, error)
	Close()
}

// Config configures a Publisher.
type Config struct {
	// Parts are what is published, each with its own election.
	Parts []Part
	// Table is the set of kinds; required.
	Table *scheme.Table
	// Feeds are the source of the events; required.
	Feeds *feed.Feeds
	// Bus carries the messages; required.
	Bus Bus
	// Peers is where publishers look for each other, so that a dead one is replaced before its
	// lease expires; nil to wait for that.
	Peers Peers
	// Logger receives what is not returned to any caller; slog.Default if nil.
	Logger *slog.Logger
	// Registerer receives the publisher's metrics; if nil there are none.
	Registerer prometheus.Registerer
	// Trace records a hop for each published change; may be nil.
	Trace *trace.Recorder
}

// Publisher publishes whenever it is elected.
type Publisher struct {
	cfg     Config
	metrics *metrics
}

// New returns a publisher. Nothing happens before Run.
func New(cfg Config) *Publisher {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Publisher{cfg: cfg, metrics: newMetrics(cfg.Registerer)}
}

// Run is a candidate for every part and publishes those for which it is elected, until ctx ends.
func (p *Publisher) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, part := range p.cfg.Parts {
		p.metrics.leader.WithLabelValues(part.election()).Set(0) // The sum then shows it when no process leads.
		group.Go(func() error {
			return part.Storage.Campaign(ctx, p.electionOf(part), func(ctx context.Context) error { return p.lead(ctx, part) })
		})
	}
	return group.Wait()
}

func (p *Publisher) electionOf(part Part) election.Election {
	e := election.Election{Name: part.election()}
	if p.cfg.Peers != nil {
		e.Presence = newPresence(p.cfg.Peers, e.Name)
		e.Deposed = p.metrics.deposed.WithLabelValues(e.Name).Inc
	}
	return e
}

// lead publishes a part until ctx ends.
func (p *Publisher) lead(ctx context.Context, part Part) error {
	leader := p.metrics.leader.WithLabelValues(part.election())
	leader.Set(1)
	defer leader.Set(0)
	j := newJournal(part.OpenLog, part.Subjects, p.cfg.Logger)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return j.run(ctx, p.cfg.Table) })
	group.Go(func() error {
		return perkind.Run(ctx, p.cfg.Table, func(ctx context.Context, kind *scheme.Kind) error {
			if !part.holds(kind) {
				return nil
			}
			return newResource(p, kind, j).run(ctx)
		})
	})
	return group.Wait()
}

const (
	openTimeout = 3 * time.Second
	reopenPause = 5 * time.Second
)

// errNoJournal reports that there is no log at present.
var errNoJournal = errors.New("there is no log at present")

// JetStream opens the log of the watch messages at the present subjects over conn, within limits: no
// messages older than age, at most bytes, on replicas servers. Other logs that keep one of the
// subjects are deleted if their names begin with the stream's and an underscore: they belonged to
// parts that no longer exist.
func JetStream(conn *bus.Conn, stream string, subjects func() []string, age time.Duration, bytes int64, replicas int) func(ctx context.Context) (Log, error) {
	return func(ctx context.Context) (Log, error) {
		log, err := conn.OpenLog(ctx, bus.LogConfig{
			Stream: stream, Subjects: subjects(), MaxAge: age, MaxBytes: bytes, Replicas: replicas, Supersedes: stream + "_",
		})
		if err != nil {
			return nil, err
		}
		return log, nil
	}
}
