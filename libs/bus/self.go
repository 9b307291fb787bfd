package bus

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base32"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

const (
	// whoToken is the last token of the subject at which a connection learns who it is.
	whoToken = "~who"
	// whoTimeout is how long an apiserver may take to say who this is; whoTries is how often
	// it is asked before the connection is made anew.
	whoTimeout = time.Second
	whoTries   = 5
	// refusedEvery is how often a refusal is logged while it lasts.
	refusedEvery = 30 * time.Second
)

// errNoCredentials says that there is nothing by which NATS could know this client.
var errNoCredentials = errors.New("neither a token nor a certificate is set")

// self is who a connection is.
//
// The part of the inboxes is the digest of a secret which the connection shows to the server
// when it connects, so that nobody who has seen the subject can claim it for himself.
type self struct {
	secret, inbox string
	// static says that NATS itself knows the user, bare that nothing is shown.
	static, bare bool

	mu       sync.Mutex
	identity string // empty until it is known
	present  bool   // said by the present server
	lives    uint64 // how many servers were lost
	current  uint64 // lives when the last server came
	logged   time.Time
}

// secretBytes is the size of a connection's secret.
const secretBytes = 20

func newSelf(cfg Config) (*self, error) {
	secret := make([]byte, secretBytes)
	if _, err := rand.Read(secret); err != nil {
		return nil, fmt.Errorf("making a secret: %w", err)
	}
	s := &self{secret: encode(secret), static: cfg.User != "" || len(cfg.Seed) > 0, bare: !cfg.HasCredentials()}
	s.inbox = InboxOf(s.secret)
	return s, nil
}

func encode(data []byte) string {
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(data))
}

// InboxOf is the part of the inboxes of who shows a secret.
func InboxOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return encode(sum[:secretBytes])
}

// options are what a connection shows of itself, and what it wants of a server.
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
		// The server hands both on to the apiservers.
		opts = append(opts, nats.UserInfo("", s.secret))
		if cfg.Token != "" || cfg.TokenFile != "" {
			opts = append(opts, nats.TokenHandler(tokenOf(cfg)))
		}
	}
	encrypted, err := tlsOptions(cfg)
	return append(opts, encrypted...), err
}

// tokenOf gives the token of the moment; an old one if the file cannot be read now.
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
			cfg.Logger.Warn("Could not read the token for NATS; showing the last one", "file", cfg.TokenFile, "err", err)
		}
		return last
	}
}

// tlsOptions are the certificates, and whether nothing but TLS will do.
func tlsOptions(cfg Config) ([]nats.Option, error) {
	base := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(cfg.CA) > 0 && cfg.CAFile == "" {
		base.RootCAs = x509.NewCertPool()
		if !base.RootCAs.AppendCertsFromPEM(cfg.CA) {
			return nil, errors.New("the authorities of NATS: there is no PEM certificate")
		}
	}
	if len(cfg.Cert) > 0 && cfg.CertFile == "" {
		pair, err := tls.X509KeyPair(cfg.Cert, cfg.Key)
		if err != nil {
			return nil, fmt.Errorf("the client certificate for NATS: %w", err)
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

// lost says that there is no server.
func (s *self) lost() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.present = false
	s.lives++
}

// came says that there is a server.
func (s *self) came() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = s.lives
}

// life tells the server that came last from those before it.
func (s *self) life() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// is takes who the server of a life says this is, and says whether that is news. If it is lost
// already it is not: the next one will say.
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

// Asker is who this connection is for the apiservers. It may be another one after a
// reconnect; as long as it is not known, an ask is refused by the server.
func (c *Conn) Asker() Asker {
	c.self.mu.Lock()
	defer c.self.mu.Unlock()
	a := Asker{Inbox: c.self.inbox, Identity: c.self.identity}
	if a.Identity == "" {
		a.Identity = NoIdentity
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

// greet learns who this is from each new server, and then tells those who wait for one. It
// ends with the connection.
func (c *Conn) greet(who *nats.Subscription) {
	defer close(c.ended)
	first := true
	for {
		select {
		case <-c.closed:
			return
		case <-c.up:
		}
		life := c.self.life()
		identity, ok := NoIdentity, true
		if !c.self.static && c.nc.AuthRequired() {
			identity, ok = c.ask(who)
		}
		if !ok || !c.self.is(identity, life) {
			continue
		}
		c.metrics.connected.Set(1)
		c.callReconnected() // What was sent before was lost.
		if first {
			// Who has waited for it is not to be told of it as of another.
			first = false
			close(c.first)
		}
	}
}

// ask asks the apiservers who this is. The one that let this connection in knows; if it has
// ended since, the next one lets it in again.
func (c *Conn) ask(who *nats.Subscription) (string, bool) {
	for range whoTries {
		if err := c.nc.PublishRequest(WhoSubject(c.self.inbox), who.Subject, nil); err != nil {
			return "", false // The next server wakes greet again.
		}
		for deadline := time.Now().Add(whoTimeout); ; {
			m, err := who.NextMsg(time.Until(deadline))
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
	c.logger.Warn("No apiserver says who this is; connecting to NATS again")
	if err := c.nc.ForceReconnect(); err != nil {
		c.logger.Debug("Could not connect to NATS again", "err", err)
	}
	return "", false
}

// refused logs why an attempt to connect failed, now and then.
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
	level, text := slog.LevelInfo, "NATS cannot be reached yet; trying again"
	if said := strings.ToLower(err.Error()); strings.Contains(said, "auth") || strings.Contains(said, "got 'ping'") {
		// The last is what a client sees whose server is still asking the apiservers.
		level, text = slog.LevelWarn, "NATS does not let this client in: no apiserver answers there, or its credential is not valid; trying again"
		if c.self.bare {
			err = errors.Join(errNoCredentials, err)
		}
	}
	c.logger.Log(context.Background(), level, text, "err", err)
}
