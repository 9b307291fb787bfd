package bus

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base32"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/garboard/garboard/libs/bus/subject"
)

const (
	// whoToken is the last token of the subject at which a connection learns its identity.
	whoToken = "~who"
	// whoTimeout is how long an apiserver may take to return this client's identity; whoTries is
	// how often the client asks before it reconnects.
	whoTimeout = time.Second
	whoTries   = 5
	// maxIdentities is how many answers with an identity may wait to be read.
	maxIdentities = 4 * whoTries
	// refusedEvery is the interval at which an ongoing refusal is logged.
	refusedEvery = 30 * time.Second
)

// errNoCredentials means that NATS has nothing by which to identify this client.
var errNoCredentials = errors.New("neither a token nor a certificate is set")

// self is the identity of a connection.
//
// Its part of the inboxes is the digest of a secret, which the connection presents to the server
// when it connects. So a client that has seen the subject cannot claim it.
type self struct {
	secret, inbox string
	// static means that NATS itself knows the user, bare that the client presents no credential.
	static, bare bool

	mu       sync.Mutex
	identity string // empty until it is known
	present  bool   // confirmed by the present server
	lives    uint64 // how many servers were lost
	current  uint64 // lives when the last server connected
	logged   time.Time
}

// secretBytes is the size of a connection's secret.
const secretBytes = 20

func newSelf(cfg Config) (*self, error) {
	secret := make([]byte, secretBytes)
	if _, err := rand.Read(secret); err != nil {
		return nil, fmt.Errorf("generating a secret: %w", err)
	}
	s := &self{secret: encode(secret), static: cfg.User != "" || len(cfg.Seed) > 0, bare: !cfg.HasCredentials()}
	s.inbox = InboxOf(s.secret)
	return s, nil
}

func encode(data []byte) string {
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(data))
}

// InboxOf returns the inbox part of a client that presents secret.
func InboxOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return encode(sum[:secretBytes])
}

// options returns the credentials that a connection presents, and what it requires of a server.
func (s *self) options(cfg Config) ([]nats.Option, error) {
	var opts []nats.Option
	switch {
	case len(cfg.Seed) > 0:
		pair, err := nkeys.FromSeed(cfg.Seed)
		if err != nil {
			return nil, fmt.Errorf("reading the key of the user: %w", err)
		}
		public, err := pair.PublicKey()
		if err != nil {
			return nil, fmt.Errorf("reading the key of the user: %w", err)
		}
		opts = append(opts, nats.Nkey(public, pair.Sign))
	case cfg.User != "":
		opts = append(opts, nats.UserInfo(cfg.User, cfg.Password))
	default:
		// The server passes both on to the apiservers.
		opts = append(opts, nats.UserInfo("", s.secret))
		if cfg.Token != "" || cfg.TokenFile != "" {
			opts = append(opts, nats.TokenHandler(tokenOf(cfg)))
		}
	}
	encrypted, err := tlsOptions(cfg)
	return append(opts, encrypted...), err
}

// tokenOf returns a function that reads the current token; it returns the last one if the file
// cannot be read.
func tokenOf(cfg Config) func() string {
	last := cfg.Token
	return func() string {
		if cfg.TokenFile == "" {
			return last
		}
		data, err := os.ReadFile(cfg.TokenFile)
		if token := strings.TrimSpace(string(data)); err == nil && token != "" {
			last = token
		} else if cfg.Logger != nil {
			cfg.Logger.Warn("could not read the token for NATS; using the last one", "file", cfg.TokenFile, "err", err)
		}
		return last
	}
}

// tlsOptions returns the TLS configuration: the certificates, and whether TLS is required.
func tlsOptions(cfg Config) ([]nats.Option, error) {
	base := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(cfg.CA) > 0 && cfg.CAFile == "" {
		base.RootCAs = x509.NewCertPool()
		if !base.RootCAs.AppendCertsFromPEM(cfg.CA) {
			return nil, errors.New("reading the CA certificates of NATS: there is no PEM certificate")
		}
	}
	if len(cfg.Cert) > 0 && cfg.CertFile == "" {
		pair, err := tls.X509KeyPair(cfg.Cert, cfg.Key)
		if err != nil {
			return nil, fmt.Errorf("reading the client certificate for NATS: %w", err)
		}
		base.Certificates = []tls.Certificate{pair}
	}
	opts := []nats.Option{func(o *nats.Options) error {
		o.TLSConfig, o.Secure = base, cfg.demandsTLS()
		return nil
	}}
	if cfg.CAFile != "" {
		opts = append(opts, nats.RootCAs(cfg.CAFile))
	}
	if cfg.CertFile != "" || cfg.KeyFile != "" {
		opts = append(opts, nats.ClientCert(cfg.CertFile, cfg.KeyFile))
	}
	return opts, nil
}

func (s *self) known() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.present
}

// lost records that there is no server.
func (s *self) lost() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.present = false
	s.lives++
}

// came records that there is a server.
func (s *self) came() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = s.lives
}

// life returns a number that distinguishes the last server connection from those before it.
func (s *self) life() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// is records the identity that the server of a life returned, and reports whether that is news. If
// that server is already lost it is not: the next one will tell.
func (s *self) is(identity string, life uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if life != s.lives {
		return false
	}
	news := !s.present || s.identity != identity
	s.identity, s.present, s.logged = identity, true, time.Time{}
	return news
}

// Client returns the identity by which the apiservers know this connection. It may change with a
// reconnect; while it is not known, the server refuses asks.
func (c *Conn) Client() subject.Client {
	c.self.mu.Lock()
	defer c.self.mu.Unlock()
	a := subject.Client{Inbox: c.self.inbox, Identity: c.self.identity}
	if a.Identity == "" {
		a.Identity = subject.NoIdentity
	}
	return a
}

// isUp wakes greet.
func (c *Conn) isUp() {
	select {
	case c.up <- struct{}{}:
	default:
	}
}

// greet learns this client's identity from each new server, and then notifies those waiting for a
// connection. It ends with the connection.
func (c *Conn) greet(replies *nats.Subscription) {
	first := true
	for {
		select {
		case <-c.closed:
			return
		case <-c.up:
		}
		life := c.self.life()
		identity, ok := subject.NoIdentity, true
		if !c.self.static && c.nc.AuthRequired() {
			identity, ok = c.ask(replies)
		}
		if !ok || !c.self.is(identity, life) {
			continue
		}
		c.metrics.connected.Set(1)
		c.callReconnected() // Messages sent before are lost.
		if first {
			// Callers that waited for the first connection must not see it as a reconnect.
			first = false
			close(c.first)
		}
	}
}

// ask asks the apiservers for this connection's identity. The one that admitted the connection
// knows it; if that one has since ended, the next one admits the connection again.
func (c *Conn) ask(replies *nats.Subscription) (string, bool) {
	for range whoTries {
		if err := c.nc.PublishRequest(subject.Who(c.self.inbox), replies.Subject, nil); err != nil {
			return "", false // The next server wakes greet again.
		}
		for deadline := time.Now().Add(whoTimeout); ; {
			m, err := replies.NextMsg(time.Until(deadline))
			if err == nil && len(m.Data) > 0 {
				return string(m.Data), true
			}
			if !c.nc.IsConnected() {
				return "", false
			}
			if errors.Is(err, nats.ErrTimeout) {
				break
			}
			if err != nil && !errors.Is(err, nats.ErrNoResponders) {
				return "", false
			}
		}
	}
	c.logger.Warn("no apiserver identifies this client; reconnecting to NATS")
	if err := c.nc.ForceReconnect(); err != nil {
		c.logger.Debug("could not reconnect to NATS", "err", err)
	}
	return "", false
}

// refused logs why an attempt to connect failed, at most once per refusedEvery.
func (c *Conn) refused(err error) {
	c.self.mu.Lock()
	now := time.Now()
	quiet := now.Sub(c.self.logged) < refusedEvery
	if !quiet {
		c.self.logged = now
	}
	c.self.mu.Unlock()
	if quiet || err == nil {
		return
	}
	// A client sees the last of these while its server is still asking the apiservers.
	if said := strings.ToLower(err.Error()); !strings.Contains(said, "auth") && !strings.Contains(said, "got 'ping'") {
		c.logger.Info("NATS is still unreachable; retrying", "err", err)
		return
	}
	if c.self.bare {
		err = errors.Join(errNoCredentials, err)
	}
	c.logger.Warn("NATS does not let this client in: no apiserver answers there, or its credential is not valid; trying again", "err", err)
}
