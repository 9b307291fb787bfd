package server

import (
	"context"
	"crypto/x509"
	"errors"
	"path/filepath"

	"github.com/garboard/garboard/libs/report"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/busauth"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/link"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/publish"
	"github.com/garboard/garboard/services/apiserver/internal/server/inspect"
	"github.com/garboard/garboard/services/apiserver/internal/server/pki"
)

// self returns this apiserver's report about itself.
func (p *plane) self() report.Self {
	return report.Self{
		Service: report.Apiserver, Replica: p.store.Identity(), Version: p.cfg.Version, Started: p.started,
		Checks: p.checked, Certificates: p.certificates, Logger: p.cfg.Logger,
	}
}

// inspector returns the inspector of the plane.
func (p *plane) inspector() *inspect.Inspector {
	cfg := inspect.Config{
		Self: p.self(), Who: userOf,
		Conn: func() inspect.Conn {
			if conn := p.link.Conn(); conn != nil {
				return conn
			}
			return nil
		},
	}
	for _, cluster := range p.store.Clusters() {
		cfg.Clusters = append(cfg.Clusters, inspect.Cluster{
			Etcd: cluster, Election: publish.Election(cluster.Cluster()), Stream: link.StreamOf(p.store, cluster),
		})
	}
	return inspect.New(cfg)
}

// userOf returns the name of the user behind an identity on the bus; empty for an apiserver's.
func userOf(identity string) string {
	user, err := busauth.User(identity)
	if err != nil {
		return ""
	}
	return user.Name
}

// checked runs the checks of /readyz and returns what is wrong with each.
func (p *plane) checked(ctx context.Context) map[string]string {
	results := map[string]string{}
	for _, health := range p.health() {
		if health.Path == readyPath {
			for name, err := range health.Results(ctx) {
				results[name] = ""
				if err != nil {
					results[name] = err.Error()
				}
			}
		}
	}
	results[natsCheck] = ""
	if conn := p.link.Conn(); conn == nil || !conn.Connected() {
		results[natsCheck] = "NATS cannot be reached"
	}
	return results
}

// readyPath is where readiness is checked. natsCheck is not one of the checks there, since an
// apiserver can serve without NATS.
const (
	readyPath = "/readyz"
	natsCheck = "nats"
)

// certificates returns the certificates that this apiserver presents, and the authority's.
func (p *plane) certificates() []report.Certificate {
	var all []report.Certificate
	serving := report.Certificate{Use: "serving", Fault: "there is none"}
	if chain := p.keys.Serving.Certificate; len(chain) > 0 {
		leaf, err := x509.ParseCertificate(chain[0])
		if err != nil {
			serving.Fault = errors.Join(errors.New("it cannot be read"), err).Error()
		} else {
			serving = report.OfCertificate(serving.Use, leaf)
		}
	}
	all = append(all, serving)
	all = append(all, report.CertificatesIn("authority", nil, filepath.Join(p.cfg.Serving.CertDir, pki.CAFile))...)
	all = append(all, report.CertificatesIn("client of etcd", nil, p.cfg.Etcd.CertFile)...)
	return append(all, report.CertificatesIn("client of NATS", p.cfg.Bus.NATS.Cert, p.cfg.Bus.NATS.CertFile)...)
}
