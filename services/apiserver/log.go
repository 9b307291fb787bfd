package apiserver

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/metric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/logstate"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/replay"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// Defaults of LogConfig.
const (
	DefaultLogReplicas = 1
	DefaultLogMaxAge   = 24 * time.Hour
	DefaultLogMaxBytes = 256 << 20
)

// maxLogReplicas is JetStream's own bound.
const maxLogReplicas = 5

// logStream is the name of the log in JetStream; that of a resource with an etcd of its own
// has its name behind it.
const logStream = "GARBOARD_WATCH"

// LogConfig says how much is kept of the watch messages in JetStream. The log is for readers
// of history and saves a new publisher some work; nothing else needs it, and all apiservers
// should have it the same, since whichever publishes sets it.
type LogConfig struct {
	// Replicas is how many NATS servers keep it, 1 to 5; DefaultLogReplicas if 0. More than
	// one needs a cluster of as many servers.
	Replicas int
	// MaxAge is how long a message is kept; DefaultLogMaxAge if 0.
	MaxAge time.Duration
	// MaxBytes is how much is kept, the oldest being dropped first, for each etcd cluster;
	// DefaultLogMaxBytes if 0.
	MaxBytes int64
}

// complete fills in defaults and names what is wrong.
func (c *LogConfig) complete() error {
	var errs []error
	if c.Replicas < 0 || c.Replicas > maxLogReplicas {
		errs = append(errs, fmt.Errorf("the log of watch messages cannot have %d replicas: it has 1 to %d", c.Replicas, maxLogReplicas))
	}
	// JetStream keeps nothing for less time than 100 ms.
	if c.MaxAge < 0 || c.MaxAge > 0 && c.MaxAge < time.Second {
		errs = append(errs, fmt.Errorf("the log of watch messages cannot be kept for %v: it must be a second or more", c.MaxAge))
	}
	if c.MaxBytes < 0 {
		errs = append(errs, fmt.Errorf("the log of watch messages cannot have %d bytes", c.MaxBytes))
	}
	if c.Replicas == 0 {
		c.Replicas = DefaultLogReplicas
	}
	if c.MaxAge == 0 {
		c.MaxAge = DefaultLogMaxAge
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = DefaultLogMaxBytes
	}
	return errors.Join(errs...)
}

// streamOf is the name of the log of an etcd cluster.
func streamOf(main, cluster *store.Store) string {
	if cluster == main {
		return logStream
	}
	return logStream + "_" + strings.ToUpper(strings.NewReplacer(".", "_", "/", "_").Replace(cluster.Cluster()))
}

// logOf gives the log of a kind to readers of history.
func logOf(main *store.Store, conn *bus.Conn) func(kind *scheme.Kind) replay.Log {
	return func(kind *scheme.Kind) replay.Log { return conn.ReadLog(streamOf(main, main.Of(kind))) }
}

// measureLogs has the metrics show how the logs are.
func (p *plane) measureLogs(conn *bus.Conn) {
	logs := map[string]logstate.Log{}
	for _, cluster := range p.store.Clusters() {
		stream := streamOf(p.store, cluster)
		logs[stream] = conn.ReadLog(stream)
	}
	metric.Register(p.cfg.Registerer, logstate.New(logs))
}
