package server

import (
	"cmp"
	"crypto/x509"
	"errors"
	"slices"

	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/upkeep/systemobjects"
)

// frontProxy returns which clients may name the user of a request in headers; nil if there is no
// authority for them. It warns if aggregated API servers would not know this server by the same.
func (p *plane) frontProxy(clients *authn.Authorities) (*authn.FrontProxy, error) {
	cfg := p.cfg.Authentication.FrontProxy
	path := cmp.Or(cfg.ClientCAFile, p.keys.FrontProxyCAFile)
	if path == "" {
		p.cfg.Logger.Warn("the certificate directory has no authority of front proxies: APIServices with a Service cannot be reached; "+
			"run `garboard init` again and restart the apiserver", "directory", p.cfg.Serving.CertDir)
		return nil, nil
	}
	proxies, err := authn.NewAuthorities(nil, path, p.cfg.Logger)
	if err != nil {
		return nil, err
	}
	certs := proxies.Certificates()
	if len(cfg.AllowedNames) == 0 && slices.ContainsFunc(clients.Certificates(), func(client *x509.Certificate) bool {
		return slices.ContainsFunc(certs, client.Equal)
	}) {
		return nil, errors.New("--requestheader-client-ca-file and --client-ca-file contain overlapping certificates; " +
			"--requestheader-allowed-names must be specified to ensure regular client certificates cannot set authenticating proxy headers for arbitrary users")
	}
	if err := p.keys.CheckProxyClient(certs); err != nil {
		p.cfg.Logger.Warn("aggregated API servers will not accept this server as a front proxy", "err", err)
	}
	return &authn.FrontProxy{Authorities: proxies, Names: cfg.AllowedNames, Headers: authn.UserHeaders{
		Name: cfg.UsernameHeaders, UID: cfg.UIDHeaders, Groups: cfg.GroupHeaders, ExtraPrefixes: cfg.ExtraHeaderPrefixes,
	}}, nil
}

// published returns what other API servers learn of front proxies.
func published(proxies *authn.FrontProxy) *systemobjects.FrontProxy {
	if proxies == nil {
		return nil
	}
	return &systemobjects.FrontProxy{
		CAs: proxies.Authorities.Certificates, AllowedNames: proxies.Names, UsernameHeaders: proxies.Headers.Name,
		UIDHeaders: proxies.Headers.UID, GroupHeaders: proxies.Headers.Groups, ExtraHeaderPrefixes: proxies.Headers.ExtraPrefixes,
	}
}
