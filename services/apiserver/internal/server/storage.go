package server

import (
	"context"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/builtin"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/allocate"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/dualstack"
	"github.com/garboard/garboard/services/apiserver/internal/storage/consistency"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// installKinds creates the catalog of the built-in kinds, with what their objects reserve in etcd.
func (p *plane) installKinds() error {
	ranges, err := p.cfg.ServiceCIDRs()
	if err != nil {
		return err
	}
	p.services, err = allocate.New(allocate.Config{Store: p.store, Table: p.table, Logger: p.cfg.Logger})
	if err != nil {
		return err
	}
	p.catalog, err = builtin.Catalog(p.table, builtin.Config{Families: dualstack.FamiliesOf(ranges), Services: p.services})
	if err != nil {
		return err
	}
	if p.cfg.Catalog != nil {
		p.cfg.Catalog(p.catalog)
	}
	return nil
}

// defaults are the catalog's: the store is open before there is a catalog, and read after that.
func (p *plane) defaults(kind *scheme.Kind) func(scheme.Object) error {
	return p.catalog.Defaults(kind)
}

// storeConfig returns the configuration of the store.
func (p *plane) storeConfig() (store.Config, error) {
	overrides, err := p.cfg.Etcd.Overrides()
	return store.Config{
		Servers: p.cfg.Etcd.Servers, CAFile: p.cfg.Etcd.CAFile, CertFile: p.cfg.Etcd.CertFile, KeyFile: p.cfg.Etcd.KeyFile,
		Prefix: p.cfg.Etcd.Prefix, EventTTL: p.cfg.Etcd.EventTTL, Overrides: overrides,
		Table: p.table, Logger: p.cfg.Logger, Registerer: p.cfg.Registerer, Trace: p.cfg.Trace,
		Defaults: p.defaults,
	}, err
}

// checkCaches compares the watch caches with etcd until ctx ends.
func (p *plane) checkCaches(ctx context.Context) error {
	return consistency.New(consistency.Config{
		Table: p.table, Storage: p.store, Logger: p.cfg.Logger, Registerer: p.cfg.Registerer,
		Cache: func(kind *scheme.Kind) consistency.Cache { return p.feeds.Of(kind) },
	}).Run(ctx)
}
