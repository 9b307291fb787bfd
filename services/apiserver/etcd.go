package apiserver

import (
	"errors"
	"fmt"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/publish"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// overrides parses EtcdServersOverrides.
func (c Config) overrides() ([]store.Override, error) {
	var all []store.Override
	var errs []error
	for _, text := range c.EtcdServersOverrides {
		o, err := store.ParseOverride(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("parsing an etcd server override: %w", err))
		}
		all = append(all, o)
	}
	return all, errors.Join(errs...)
}

// storeConfig returns the configuration of the store.
func (s *Server) storeConfig() (store.Config, error) {
	overrides, err := s.cfg.overrides()
	return store.Config{
		Servers: s.cfg.EtcdServers, CAFile: s.cfg.EtcdCAFile, CertFile: s.cfg.EtcdCertFile, KeyFile: s.cfg.EtcdKeyFile,
		Prefix: s.cfg.EtcdPrefix, EventTTL: s.cfg.EventTTL, Overrides: overrides,
		Table: s.table, Logger: s.cfg.Logger, Registerer: s.cfg.Registerer, Trace: s.cfg.Trace,
		Defaults: s.cfg.Catalog.Defaults,
	}, err
}

// parts returns what to publish: one part for each etcd cluster, each with its own log, since
// revisions of different clusters are unrelated.
func (c LogConfig) parts(main *store.Store, table *scheme.Table, conn *bus.Conn) []publish.Part {
	var all []publish.Part
	for _, cluster := range main.Clusters() {
		holds := func(kind *scheme.Kind) bool { return main.Of(kind) == cluster }
		subjects := func() []string {
			if len(main.Clusters()) == 1 {
				return []string{bus.AllWatchSubjects()}
			}
			var found []string
			for _, kind := range table.Kinds() {
				if kind.Stored() && holds(kind) {
					found = append(found, bus.ResourceSubject(kind.Group, kind.Resource))
				}
			}
			return found
		}
		all = append(all, publish.Part{
			Name: cluster.Cluster(), Truth: cluster, Holds: holds,
			OpenLog: publish.JetStream(conn, streamOf(main, cluster), subjects, c.MaxAge, c.MaxBytes, c.Replicas),
		})
	}
	return all
}
