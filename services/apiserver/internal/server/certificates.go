package server

import (
	"path/filepath"

	"github.com/garboard/garboard/libs/metric"
	"github.com/garboard/garboard/services/apiserver/internal/server/pki"
)

// measureCertificates registers the metrics of when the server's own certificates expire, and those
// of the authorities that it trusts.
func (p *plane) measureCertificates() {
	serving := p.cfg.Serving.TLSCertFile
	if serving == "" {
		serving, _ = pki.ServingFiles(p.cfg.Serving.CertDir)
	}
	proxies, client := p.cfg.Authentication.FrontProxy.ClientCAFile, p.cfg.Serving.ProxyClientCertFile
	if proxies == "" {
		proxies = p.keys.FrontProxyCAFile
	}
	if client == "" && p.keys.FrontProxyCAFile != "" {
		client = pki.ProxyClientFile(p.cfg.Serving.CertDir)
	}
	metric.Register(p.cfg.Registerer, metric.Certificates(nil,
		filepath.Join(p.cfg.Serving.CertDir, pki.CAFile), serving, p.cfg.Authentication.ClientCAFile, proxies, client,
		p.cfg.Serving.PeerCAFile, p.cfg.Etcd.CAFile, p.cfg.Etcd.CertFile, p.cfg.Bus.NATS.CAFile, p.cfg.Bus.NATS.CertFile,
	))
}
