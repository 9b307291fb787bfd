package apiserver

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/publish"
	"github.com/garboard/garboard/services/apiserver/internal/store"
)

// The logs of all watch messages in JetStream: how long and how much of them is kept. They are
// a convenience, never needed for correctness.
const (
	logStream   = "GARBOARD_WATCH"
	logAge      = 24 * time.Hour
	logBytes    = 256 << 20
	logReplicas = 1
)

// overrides reads EtcdServersOverrides.
func (c Config) overrides() ([]store.Override, error) {
	var all []store.Override
	var errs []error
	for _, text := range c.EtcdServersOverrides {
		o, err := store.ParseOverride(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("an etcd of its own for a resource: %w", err))
		}
		all = append(all, o)
	}
	return all, errors.Join(errs...)
}

// storeConfig is how the store is opened.
func (s *Server) storeConfig() (store.Config, error) {
	overrides, err := s.cfg.overrides()
	return store.Config{
		Servers: s.cfg.EtcdServers, CAFile: s.cfg.EtcdCAFile, CertFile: s.cfg.EtcdCertFile, KeyFile: s.cfg.EtcdKeyFile,
		Prefix: s.cfg.EtcdPrefix, EventTTL: s.cfg.EventTTL, Overrides: overrides,
		Table: s.table, Logger: s.cfg.Logger, Registerer: s.cfg.Registerer, Trace: s.cfg.Trace,
	}, err
}

// parts are what is published, one for each etcd cluster, each with its own log: revisions of
// different clusters have nothing to do with each other.
func parts(main *store.Store, table *scheme.Table, conn *bus.Conn) []publish.Part {
	var all []publish.Part
	for _, cluster := range main.Clusters() {
		part := publish.Part{Name: cluster.Cluster(), Truth: cluster}
		var subjects []string
		for _, kind := range table.Kinds() {
			if kind.Stored() && main.Of(kind) == cluster {
				part.Kinds = append(part.Kinds, kind)
				subjects = append(subjects, bus.ResourceSubject(kind.Group, kind.Resource))
			}
		}
		stream := logStream
		switch {
		case cluster != main:
			stream += "_" + strings.ToUpper(strings.NewReplacer(".", "_", "/", "_").Replace(cluster.Cluster()))
		case len(main.Clusters()) == 1:
			subjects = []string{bus.AllWatchSubjects()}
		}
		part.OpenLog = publish.JetStream(conn, stream, subjects, logAge, logBytes, logReplicas)
		all = append(all, part)
	}
	return all
}
