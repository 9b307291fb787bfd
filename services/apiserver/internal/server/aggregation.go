package server

import (
	"crypto/tls"
	"fmt"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/aggregation"
	"github.com/garboard/garboard/services/apiserver/internal/http/discovery"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
	"github.com/garboard/garboard/services/apiserver/internal/upkeep/apiservices"
	"github.com/garboard/garboard/services/apiserver/internal/upkeep/availability"
)

// aggregate creates what passes requests on to other servers.
func (p *plane) aggregate(encoder *response.Encoder) {
	p.remote = aggregation.New(aggregation.Config{
		Resolver: p.endpoints(), Dial: p.dialer.Dial, Gate: p.gate, Encoder: encoder,
		Certificate: p.proxyClient,
	})
	endpoints := p.endpoints()
	p.available = availability.New(availability.Config{
		APIs: p.remote, Table: p.table, Registry: p.registry, Feeds: p.feeds, Service: endpoints.Service, Slices: endpoints.Slices,
		Logger: p.cfg.Logger, Registerer: p.cfg.Registerer,
	})
}

// proxyClient returns the certificate by which other servers know this one as a front proxy.
func (p *plane) proxyClient() (*tls.Certificate, error) {
	pair, err := p.keys.ProxyClient()
	if err == nil && pair == nil {
		err = fmt.Errorf("%s has no client certificate of the front proxy; run `garboard init` again and restart the apiserver", p.cfg.Serving.CertDir)
	}
	return pair, err
}

// priority returns the priority of a kind's group and version in discovery.
func priority(kind *scheme.Kind) discovery.Priority {
	group, version := apiservices.Priority(kind)
	return discovery.Priority{Group: group, Version: version}
}
