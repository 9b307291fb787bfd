// Package report gathers the state of a plane's processes. An apiserver asks all of them at once
// over NATS, each answers for itself, and tools read the result over HTTP with only a kubeconfig.
package report

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"time"

	"github.com/garboard/garboard/libs/informer/watcher"
)

// Paths at which an apiserver serves what it has gathered.
const (
	// StatusPath serves a Status.
	StatusPath = "/debug/garboard/status"
	// WatchersPath serves the informers of all processes, as a list of Watcher.
	WatchersPath = watcher.Path
)

// Services of a plane, by their own names.
const (
	Apiserver   = "apiserver"
	Controllers = "controllers"
	Scheduler   = "scheduler"
	NodeAgent   = "nodeagent"
)

// APIClient is the Use of the certificate with which a process authenticates to the API.
const APIClient = "client of the API"

// Report is what one process reports about itself.
type Report struct {
	// Service is what the process is: one of the services above, or another program that follows
	// the plane. Replica distinguishes it from others of its kind; for a node agent it is the node.
	Service string `json:"service"`
	Replica string `json:"replica"`
	// Version is the program's version.
	Version string `json:"version,omitempty"`
	// Now is the time by the process's clock, and Started when the process began by that clock.
	Now     time.Time `json:"now"`
	Started time.Time `json:"started"`
	// NotReady is the reason why the process is not ready; empty when it is.
	NotReady string `json:"notReady,omitempty"`
	// Checks are the results of an apiserver's /readyz checks, by name: empty for success.
	Checks map[string]string `json:"checks,omitempty"`
	// Certificates are those that the process presents to others.
	Certificates []Certificate `json:"certificates,omitempty"`
	// Watchers are the process's informers. Omitted counts those that did not fit into the message;
	// they are no further behind than those listed.
	Watchers []watcher.Status `json:"watchers,omitempty"`
	Omitted  int              `json:"omitted,omitempty"`
}

// Certificate describes one certificate.
type Certificate struct {
	// Use is the purpose of the certificate, Subject its owner, Issuer the CA that signed it.
	Use     string `json:"use"`
	Subject string `json:"subject,omitempty"`
	Issuer  string `json:"issuer,omitempty"`
	// NotBefore and NotAfter bound its validity.
	NotBefore time.Time `json:"notBefore,omitzero"`
	NotAfter  time.Time `json:"notAfter,omitzero"`
	// Fault is the reason why nothing is known of it; empty otherwise.
	Fault string `json:"fault,omitempty"`
}

// OfCertificate describes a certificate.
func OfCertificate(use string, c *x509.Certificate) Certificate {
	return Certificate{Use: use, Subject: c.Subject.String(), Issuer: c.Issuer.String(), NotBefore: c.NotBefore, NotAfter: c.NotAfter}
}

// CertificatesIn describes the first certificate in PEM data, or in the file at path if data is
// empty; nil if both are empty.
func CertificatesIn(use string, data []byte, path string) []Certificate {
	if len(data) == 0 && path == "" {
		return nil
	}
	if len(data) == 0 {
		read, err := os.ReadFile(path)
		if err != nil {
			return []Certificate{{Use: use, Fault: err.Error()}}
		}
		data = read
	}
	for {
		block, rest := pem.Decode(data)
		if block == nil {
			return []Certificate{{Use: use, Fault: "there is no certificate in the PEM data"}}
		}
		if block.Type != "CERTIFICATE" {
			data = rest
			continue
		}
		parsed, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return []Certificate{{Use: use, Fault: fmt.Sprintf("it cannot be read: %v", err)}}
		}
		return []Certificate{OfCertificate(use, parsed)}
	}
}

// Answer is a report as it arrived.
type Answer struct {
	Report
	// User is the user that sent it, as NATS states, not the report itself.
	User string `json:"user,omitempty"`
	// Seconds is how long the answer took.
	Seconds float64 `json:"seconds"`
	// Behind is how many seconds the process's clock is behind that of the asking apiserver,
	// negative if it is ahead, corrected by half of the round trip.
	Behind float64 `json:"behind"`
}

// Watcher is one informer of one process.
type Watcher struct {
	watcher.Status
	// Replica is the process, Version its program's version, User its user at the API.
	Replica string `json:"replica"`
	Version string `json:"serviceVersion,omitempty"`
	User    string `json:"user,omitempty"`
}

// Watchers returns all informers in the answers.
func Watchers(answers []Answer) []Watcher {
	all := []Watcher{}
	for _, a := range answers {
		for _, w := range a.Watchers {
			all = append(all, Watcher{Status: w, Replica: a.Replica, Version: a.Version, User: a.User})
		}
	}
	return all
}
