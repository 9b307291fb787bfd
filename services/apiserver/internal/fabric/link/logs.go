package link

import (
	"strings"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/libs/metric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/logstate"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/publish"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/replay"
	"github.com/garboard/garboard/services/apiserver/internal/server/config"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// logStream is the name of the log in JetStream. The log of a resource with its own etcd has the
// resource's name appended.
const logStream = "GARBOARD_WATCH"

// parts returns what to publish: one part for each etcd cluster, each with its own log, since
// revisions of different clusters are unrelated.
func parts(log config.Log, main *store.Store, table *scheme.Table, conn *bus.Conn) []publish.Part {
	var all []publish.Part
	for _, cluster := range main.Clusters() {
		holds := func(kind *scheme.Kind) bool { return main.Of(kind) == cluster }
		subjects := func() []string {
			if len(main.Clusters()) == 1 {
				return []string{subject.AllWatch()}
			}
			var found []string
			for _, kind := range table.Kinds() {
				if kind.Stored() && holds(kind) {
					found = append(found, subject.Resource(kind.Group, kind.Resource))
				}
			}
			return found
		}
		all = append(all, publish.Part{
			Name: cluster.Cluster(), Storage: cluster, Holds: holds, Subjects: subjects,
			OpenLog: publish.JetStream(conn, StreamOf(main, cluster), subjects, log.MaxAge, log.MaxBytes, log.Replicas),
		})
	}
	return all
}

// StreamOf returns the name of the log of an etcd cluster.
func StreamOf(main, cluster *store.Store) string {
	if cluster == main {
		return logStream
	}
	return logStream + "_" + strings.ToUpper(strings.NewReplacer(".", "_", "/", "_").Replace(cluster.Cluster()))
}

// logOf returns a function that returns the log of a kind, for readers of history.
func logOf(main *store.Store, conn *bus.Conn) func(kind *scheme.Kind) replay.Log {
	return func(kind *scheme.Kind) replay.Log { return conn.ReadLog(StreamOf(main, main.Of(kind))) }
}

// measureLogs registers the metrics of the logs.
func (l *Link) measureLogs(conn *bus.Conn) {
	logs := map[string]logstate.Log{}
	for _, cluster := range l.cfg.Store.Clusters() {
		stream := StreamOf(l.cfg.Store, cluster)
		logs[stream] = conn.ReadLog(stream)
	}
	metric.Register(l.cfg.Registerer, logstate.New(logs))
}
