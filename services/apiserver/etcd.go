package apiserver

import (
	"errors"
	"fmt"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/publish"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/strategy"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
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
		Defaults: strategy.Defaults(),
	}, err
}

// parts are what is published, one for each etcd cluster, each with its own log: revisions of
// different clusters have nothing to do with each other.
func (c LogConfig) parts(main *store.Store, table *scheme.Table, conn *bus.Conn) []publish.Part {
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
		if cluster == main && len(main.Clusters()) == 1 {
			subjects = []string{bus.AllWatchSubjects()}
		}
		part.OpenLog = publish.JetStream(conn, streamOf(main, cluster), subjects, c.MaxAge, c.MaxBytes, c.Replicas)
		all = append(all, part)
	}
	return all
}
