package server

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/strategy"
	"github.com/garboard/garboard/services/apiserver/internal/registry/dualstack"
	"github.com/garboard/garboard/services/apiserver/internal/server/config"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// builtinKinds returns the catalog of the built-in kinds.
func builtinKinds(cfg config.Config) (*kinds.Catalog, error) {
	ranges, err := cfg.ServiceCIDRs()
	if err != nil {
		return nil, err
	}
	var families []corev1.IPFamily
	for _, prefix := range ranges {
		families = append(families, dualstack.FamilyOf(prefix.Addr().String()))
	}
	return strategy.Catalog(scheme.New(), families...)
}

// storeConfig returns the configuration of the store.
func (p *plane) storeConfig() (store.Config, error) {
	overrides, err := p.cfg.Etcd.Overrides()
	return store.Config{
		Servers: p.cfg.Etcd.Servers, CAFile: p.cfg.Etcd.CAFile, CertFile: p.cfg.Etcd.CertFile, KeyFile: p.cfg.Etcd.KeyFile,
		Prefix: p.cfg.Etcd.Prefix, EventTTL: p.cfg.Etcd.EventTTL, Overrides: overrides,
		Table: p.table, Logger: p.cfg.Logger, Registerer: p.cfg.Registerer, Trace: p.cfg.Trace,
		Defaults: p.cfg.Catalog.Defaults,
	}, err
}
