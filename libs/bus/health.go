package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// ServerInfo describes the server that a connection uses.
type ServerInfo struct {
	// Name, Version and Cluster are as the server reports them; Cluster is empty for a single
	// server.
	Name, Version, Cluster string
	// Known are the addresses of all servers that the connection knows.
	Known []string
	// RoundTrip is how long a message took to the server and back.
	RoundTrip time.Duration
}

// Server describes the present server; it returns ErrDisconnected if there is none.
func (c *Conn) Server(ctx context.Context) (ServerInfo, error) {
	if !c.nc.IsConnected() {
		return ServerInfo{}, ErrDisconnected
	}
	began := time.Now()
	if err := c.Flush(ctx); err != nil {
		return ServerInfo{}, err
	}
	return ServerInfo{
		Name: c.nc.ConnectedServerName(), Version: c.nc.ConnectedServerVersion(), Cluster: c.nc.ConnectedClusterName(),
		Known: c.nc.Servers(), RoundTrip: time.Since(began),
	}, nil
}

// LogHealth is the state of a log and its replicas.
type LogHealth struct {
	// Clustered reports whether servers of a cluster store the log, and Wanted is how many should.
	// Leader is the server that accepts messages, empty if there is none; Others are the remaining
	// replicas.
	Clustered bool
	Wanted    int
	Leader    string
	Others    []LogReplica
	// Messages and Bytes are what the log holds. MaxBytes is its limit; negative for none.
	Messages, Bytes uint64
	MaxBytes        int64
	// Last is the sequence of the newest message, LastTime when it arrived.
	Last     uint64
	LastTime time.Time
	// Consumers is the number of JetStream consumers, which should be 0.
	Consumers int
}

// LogReplica is one of the servers that store a log.
type LogReplica struct {
	Name             string
	Current, Offline bool
	// Lag is how many operations the replica is behind.
	Lag uint64
}

// LogHealth returns the state of the log with this name; ErrNone if there is none.
func (c *Conn) LogHealth(ctx context.Context, stream string) (LogHealth, error) {
	what := "reading the health of the log " + stream
	js, err := jetstream.New(c.nc)
	if err != nil {
		return LogHealth{}, fmt.Errorf("%s: %w", what, err)
	}
	found, err := js.Stream(ctx, stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return LogHealth{}, fmt.Errorf("%s: %w", what, ErrNone)
	}
	if err != nil {
		return LogHealth{}, wrap(what, err)
	}
	info := found.CachedInfo()
	health := LogHealth{
		Wanted: info.Config.Replicas, Messages: info.State.Msgs, Bytes: info.State.Bytes, MaxBytes: info.Config.MaxBytes,
		Last: info.State.LastSeq, LastTime: info.State.LastTime, Consumers: info.State.Consumers,
	}
	// A single server reports itself as the leader and names no cluster.
	if info.Cluster != nil && info.Cluster.Name != "" {
		health.Clustered, health.Leader = true, info.Cluster.Leader
		for _, r := range info.Cluster.Replicas {
			health.Others = append(health.Others, LogReplica{Name: r.Name, Current: r.Current, Offline: r.Offline, Lag: r.Lag})
		}
	}
	return health, nil
}
