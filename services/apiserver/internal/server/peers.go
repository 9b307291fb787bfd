package server

import (
	"context"
	"fmt"
	"net/http"

	"github.com/garboard/garboard/libs/lifecycle"
	"github.com/garboard/garboard/services/apiserver/internal/http/aggregation"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/discovery"
	"github.com/garboard/garboard/services/apiserver/internal/http/peers"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
)

// elsewhere is what other servers serve: those of APIServices come before other apiservers.
type elsewhere struct {
	apis  *aggregation.APIs
	peers *peers.Peers // nil for none
}

// Serves reports whether another server has what a request is for.
func (e elsewhere) Serves(r *http.Request) bool {
	return e.apis.Serves(r.URL.Path) || e.peers != nil && e.peers.Serves(r)
}

// ServeHTTP passes a request on.
func (e elsewhere) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if e.peers == nil || e.apis.Serves(r.URL.Path) {
		e.apis.ServeHTTP(w, r)
		return
	}
	e.peers.ServeHTTP(w, r)
}

// meetPeers creates what passes requests on to other apiservers, if that is wanted.
func (p *plane) meetPeers(encoder *response.Encoder) error {
	file := p.cfg.Serving.PeerCAFile
	if file == "" {
		return nil
	}
	authorities, err := authn.NewAuthorities(nil, file, p.cfg.Logger)
	if err != nil {
		return fmt.Errorf("reading --peer-ca-file: %w", err)
	}
	p.peers = peers.New(peers.Config{
		Table: p.table, Addresses: p.members.Peers, Authorities: authorities.Pool, Certificate: p.proxyClient, Elsewhere: p.remote,
		Gate: p.gate, Encoder: encoder, Logger: p.cfg.Logger, Registerer: p.cfg.Registerer,
	})
	return nil
}

// peering returns the stage that asks other apiservers what they serve, unless that is not wanted.
func (p *plane) peering() lifecycle.Stage {
	if p.cfg.Serving.PeerCAFile == "" {
		return lifecycle.Stage{}
	}
	return lifecycle.Stage{Name: "other apiservers", Run: func(ctx context.Context) error { return p.peers.Run(ctx) }}
}

// discoveries returns what serves discovery: of everything, and of what this server serves without other apiservers,
// for which those ask.
func (p *plane) discoveries(cfg discovery.Config) func(r *http.Request) *discovery.Handler {
	cfg.Source = p.remote
	own := discovery.New(cfg)
	if p.peers == nil {
		return func(*http.Request) *discovery.Handler { return own }
	}
	cfg.Source = p.peers
	all := discovery.New(cfg)
	return func(r *http.Request) *discovery.Handler {
		if peers.AsksForOwn(r) {
			return own
		}
		return all
	}
}
