package client

import (
	"bytes"

	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/bus"
)

// BusConfig makes a program present to NATS the credential that it presents to the apiserver: its
// bearer token or its client certificate. It changes nothing if cfg has a user or a token of its
// own. Users that a plugin or a password identifies are unknown to NATS.
func BusConfig(api *rest.Config, cfg bus.Config) bus.Config {
	if api == nil || cfg.User != "" || len(cfg.Seed) > 0 || cfg.Token != "" || cfg.TokenFile != "" {
		return cfg
	}
	cfg.Token, cfg.TokenFile = api.BearerToken, api.BearerTokenFile
	if cfg.HasCredentials() {
		return cfg
	}
	cfg.CertFile, cfg.KeyFile = api.CertFile, api.KeyFile
	cfg.Cert, cfg.Key = api.CertData, api.KeyData
	return cfg
}

// Certified reports whether a connection to NATS presents the client certificate of api and no other
// credential, so that NATS knows the user of api.
func Certified(api *rest.Config, cfg bus.Config) bool {
	switch {
	case api == nil, cfg.User != "", len(cfg.Seed) > 0, cfg.Token != "", cfg.TokenFile != "":
		return false
	case api.CertFile != "":
		return cfg.CertFile == api.CertFile
	}
	return len(api.CertData) > 0 && cfg.CertFile == "" && bytes.Equal(cfg.Cert, api.CertData)
}
