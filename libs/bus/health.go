package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// ServerInfo is what a connection knows of the server that it has.
type ServerInfo struct {
	// Name, Version and Cluster are the server's own words; Cluster is empty for a single one.
	Name, Version, Cluster string
	// Known are the addresses of all servers that the connection was told of.
	Known []string
	// RoundTrip is how long a message there and back took.
	RoundTrip time.Duration
}

// Server tells of the present server; ErrDisconnected if there is none.
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

// LogHealth is how a log is.
type LogHealth struct {
	// Clustered says that servers of a cluster keep it, Wanted of them; Leader is the one that
	// takes messages, empty if none does, and Others are the rest.
	Clustered bool
	Wanted    int
	Leader    string
	Others    []LogReplica
	// Messages and Bytes are what it holds, MaxBytes what it may, negative for no bound.
	Messages, Bytes uint64
	MaxBytes        int64
	// Last is the newest message's number, LastTime when it came.
	Last     uint64
	LastTime time.Time
	// Consumers are JetStream's, of which there should be none.
	Consumers int
}

// LogReplica is one of the servers that keep a log.
type LogReplica struct {
	Name             string
	Current, Offline bool
	// Lag is by how many operations it is behind.
	Lag uint64
}

// LogHealth tells how the log of a name is; ErrNone if there is none.
func (c *Conn) LogHealth(ctx context.Context, stream string) (LogHealth, error) {
	what := "asking how the log " + stream + " is"
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
	// A single server says that it leads, and names no cluster.
	if info.Cluster != nil && info.Cluster.Name != "" {
		health.Clustered, health.Leader = true, info.Cluster.Leader
		for _, r := range info.Cluster.Replicas {
			health.Others = append(health.Others, LogReplica{Name: r.Name, Current: r.Current, Offline: r.Offline, Lag: r.Lag})
		}
	}
	return health, nil
}
