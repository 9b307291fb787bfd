package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/garboard/garboard/services/apiserver/internal/http/filters"
)

// DefaultRequestTimeout is the default of Limits.RequestTimeout.
const DefaultRequestTimeout = filters.DefaultTimeout

// Kubernetes' defaults for the bounds on requests in flight.
const (
	DefaultMaxReads  = 400
	DefaultMaxWrites = 200
)

// DefaultMaxSessions is the default of Limits.MaxSessions. Kubernetes has no such bound.
const DefaultMaxSessions = 4000

// Serving configures how the API is served over HTTPS.
type Serving struct {
	// Listen is the address to serve at, host:port. It is not used if Listener is set.
	Listen string
	// Listener is served in place of Listen; Run closes it.
	Listener net.Listener
	// CertDir is the directory of the certificate authority, the serving certificate, the key that
	// signs service account tokens, and the tokens of the services. Missing files are created at
	// the first start and kept.
	CertDir string
	// TLSCertFile and TLSKeyFile are PEM files of a serving certificate and its key from elsewhere,
	// read again when they change; set both or neither. With them CertDir is only read, and holds
	// what `garboard init` creates for an apiserver: no key of the authority, and no tokens unless
	// they are wanted.
	TLSCertFile, TLSKeyFile string
	// ProxyClientCertFile and ProxyClientKeyFile are PEM files of the certificate and key with which
	// the server calls aggregated API servers, instead of those in CertDir, read again when they
	// change; set both or neither.
	ProxyClientCertFile, ProxyClientKeyFile string
	// Hosts are further names and addresses by which clients reach the server, for the certificate
	// in CertDir.
	Hosts []string
	// AdvertiseAddress is the IP address by which pods reach this server, an endpoint of the
	// kubernetes Service. If empty, it is the address of Listen, or this machine's if that is
	// unspecified. A server that listens only on loopback has none.
	AdvertiseAddress string
	// ShutdownDelay is for how long during shutdown requests are still accepted while readiness
	// fails, so that load balancers notice.
	ShutdownDelay time.Duration
	// ShutdownWatchGrace is the time over which the watches are then ended one by one, in random
	// order; all at once if 0.
	ShutdownWatchGrace time.Duration
	// PeerCAFile is a PEM file of the authorities of other apiservers' serving certificates, read again when it
	// changes. If it is set, requests for kinds that only other apiservers serve are passed on to them.
	PeerCAFile string
	// PeerAdvertiseIP and PeerAdvertisePort are where other apiservers reach this one; set both or neither. If
	// empty, it is where pods do.
	PeerAdvertiseIP, PeerAdvertisePort string
	// AllowedOrigins are regular expressions of the origins whose scripts may use the API from a
	// browser. Each must be anchored at the beginning and at the end of the host.
	AllowedOrigins []string
	// GoawayChance is the fraction of HTTP/2 requests after which the client has to connect anew, so
	// that a load balancer can choose another server; 0 to 0.02.
	GoawayChance float64
}

// ReadsKeys reports whether CertDir is filled by another program.
func (s Serving) ReadsKeys() bool { return s.TLSCertFile != "" }

// complete returns everything that is wrong.
func (s *Serving) complete() error {
	var errs []error
	if s.Listener == nil {
		if _, _, err := net.SplitHostPort(s.Listen); err != nil {
			errs = append(errs, fmt.Errorf("the address to listen at, %q, is not HOST:PORT", s.Listen))
		}
	}
	if s.CertDir == "" {
		errs = append(errs, errors.New("no certificate directory is set"))
	}
	if err := s.checkPeer(); err != nil {
		errs = append(errs, err)
	}
	if (s.TLSCertFile == "") != (s.TLSKeyFile == "") {
		errs = append(errs, errors.New("--tls-cert-file and --tls-private-key-file must be set together"))
	}
	if (s.ProxyClientCertFile == "") != (s.ProxyClientKeyFile == "") {
		errs = append(errs, errors.New("--proxy-client-cert-file and --proxy-client-key-file must be set together"))
	}
	if s.ShutdownDelay < 0 || s.ShutdownWatchGrace < 0 {
		errs = append(errs, fmt.Errorf("the shutdown delay, %v, and the grace period of watches, %v, must not be negative",
			s.ShutdownDelay, s.ShutdownWatchGrace))
	}
	_, err := s.Advertised(nil)
	_, badOrigins := s.Origins()
	return errors.Join(append(errs, err, badOrigins, s.checkGoaway())...)
}

// Limits bounds the requests.
type Limits struct {
	// MaxReads and MaxWrites bound the requests in flight, without long-running ones;
	// DefaultMaxReads and DefaultMaxWrites if 0, no bound if negative.
	MaxReads, MaxWrites int
	// MaxSessions bounds the logs, exec, attach, port-forward and proxy requests in flight; DefaultMaxSessions if 0,
	// no bound if negative.
	MaxSessions int
	// NoShares lets one user use both bounds up, and reserves nothing for nodes and the plane's
	// own users. It is for measurements.
	NoShares bool
	// RequestTimeout bounds every request that is not long-running; DefaultRequestTimeout if 0, no
	// bound if negative, which is for measurements.
	RequestTimeout time.Duration
}

// complete sets defaults.
func (l *Limits) complete() {
	if l.MaxReads == 0 {
		l.MaxReads = DefaultMaxReads
	}
	if l.MaxWrites == 0 {
		l.MaxWrites = DefaultMaxWrites
	}
	if l.MaxSessions == 0 {
		l.MaxSessions = DefaultMaxSessions
	}
	if l.RequestTimeout == 0 {
		l.RequestTimeout = DefaultRequestTimeout
	}
}

// checkPeer returns an error if other apiservers could not reach this one.
func (s *Serving) checkPeer() error {
	if s.PeerAdvertiseIP == "" && s.PeerAdvertisePort == "" {
		return nil
	}
	if _, err := netip.ParseAddr(s.PeerAdvertiseIP); err != nil {
		return fmt.Errorf("--peer-advertise-ip and --peer-advertise-port must be set together: %q is no IP address", s.PeerAdvertiseIP)
	}
	if port, err := strconv.ParseUint(s.PeerAdvertisePort, 10, 16); err != nil || port == 0 {
		return fmt.Errorf("--peer-advertise-ip and --peer-advertise-port must be set together: %q is no port", s.PeerAdvertisePort)
	}
	return nil
}

// PeerAddress returns where other apiservers reach this one, HOST:PORT; empty if they cannot. Without addresses of its
// own it is advertised, which may be invalid.
func (s *Serving) PeerAddress(advertised netip.AddrPort) string {
	switch {
	case s.PeerAdvertiseIP != "":
		return net.JoinHostPort(s.PeerAdvertiseIP, s.PeerAdvertisePort)
	case advertised.IsValid():
		return advertised.String()
	default:
		return ""
	}
}
