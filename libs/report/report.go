// Package report is how the processes of a plane say how they are: an apiserver asks all of them
// at once over NATS, each answers for itself, and tools read what was gathered over HTTP, with
// nothing but a kubeconfig.
package report

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"time"

	"github.com/garboard/garboard/libs/informer/watcher"
)

// Paths where an apiserver tells what it has gathered.
const (
	// StatusPath tells a Status.
	StatusPath = "/debug/garboard/status"
	// WatchersPath tells what all informers follow, as a list of Watcher.
	WatchersPath = watcher.Path
)

// Services of a plane, as they call themselves.
const (
	Apiserver   = "apiserver"
	Controllers = "controllers"
	Scheduler   = "scheduler"
	NodeAgent   = "nodeagent"
)

// APIClient is the Use of a certificate by which a process is known to the API.
const APIClient = "client of the API"

// Report is what one process says of itself.
type Report struct {
	// Service is what the process is: one of the services above, or another program that follows
	// the plane. Replica tells it from others of its kind; that of a node agent is its node.
	Service string `json:"service"`
	Replica string `json:"replica"`
	// Version is that of the program.
	Version string `json:"version,omitempty"`
	// Now is the process's clock, and Started when it began by that.
	Now     time.Time `json:"now"`
	Started time.Time `json:"started"`
	// NotReady says why the process is not ready; empty when it is.
	NotReady string `json:"notReady,omitempty"`
	// Checks are how the checks of an apiserver's /readyz went, by name: empty for well.
	Checks map[string]string `json:"checks,omitempty"`
	// Certificates are those that the process shows to others.
	Certificates []Certificate `json:"certificates,omitempty"`
	// Watchers are what the process follows. Omitted counts those that found no room in the
	// message; they are not further behind than those that are here.
	Watchers []watcher.Status `json:"watchers,omitempty"`
	Omitted  int              `json:"omitted,omitempty"`
}

// Certificate is what is worth knowing of one.
type Certificate struct {
	// Use says what for, Subject whose it is, Issuer who vouches for it.
	Use     string `json:"use"`
	Subject string `json:"subject,omitempty"`
	Issuer  string `json:"issuer,omitempty"`
	// NotBefore and NotAfter are when it is valid.
	NotBefore time.Time `json:"notBefore,omitzero"`
	NotAfter  time.Time `json:"notAfter,omitzero"`
	// Fault says why nothing is known of it; empty otherwise.
	Fault string `json:"fault,omitempty"`
}

// OfCertificate tells of a certificate.
func OfCertificate(use string, c *x509.Certificate) Certificate {
	return Certificate{Use: use, Subject: c.Subject.String(), Issuer: c.Issuer.String(), NotBefore: c.NotBefore, NotAfter: c.NotAfter}
}

// CertificatesIn tells of the first certificate in PEM data, or in the file at path if there is no
// data; nothing if there is neither.
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

// Answer is a report as it came.
type Answer struct {
	Report
	// User is who gave it: what NATS says, not the report itself.
	User string `json:"user,omitempty"`
	// Seconds is how long it took.
	Seconds float64 `json:"seconds"`
	// Behind is by how much the process's clock is behind that of the apiserver that asked, in
	// seconds, negative if it is ahead; half of the way is left out.
	Behind float64 `json:"behind"`
}

// Watcher is one informer of one process.
type Watcher struct {
	watcher.Status
	// Replica is the process, Version its program's, User who it is for the API.
	Replica string `json:"replica"`
	Version string `json:"serviceVersion,omitempty"`
	User    string `json:"user,omitempty"`
}

// Watchers are all informers of those who answered.
func Watchers(answers []Answer) []Watcher {
	all := []Watcher{}
	for _, a := range answers {
		for _, w := range a.Watchers {
			all = append(all, Watcher{Status: w, Replica: a.Replica, Version: a.Version, User: a.User})
		}
	}
	return all
}
