// Package embedded runs a NATS server with JetStream in this process, for the standalone plane and
// for tests.
package embedded

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/garboard/garboard/libs/bus/callout"
	"github.com/garboard/garboard/libs/bus/logsample"
)

// Special values of Config.Port.
const (
	// RandomPort makes the system choose a free port.
	RandomPort = -1
	// NoListener opens no port: clients can connect only by InProcess.
	NoListener = 0
)

// Config sets how clients reach the server and where it stores its streams.
type Config struct {
	// Name is the server's name; empty means "garboard".
	Name string
	// Host is the address to listen at; empty means 127.0.0.1.
	Host string
	// Port is a port number, RandomPort, or NoListener.
	Port int
	// StoreDir is JetStream's directory, which New creates if it is missing. If empty, there is no
	// JetStream.
	StoreDir string
	// MaxStore limits JetStream's storage, in bytes; 0 means 1 GiB.
	MaxStore int64
	// User and Password, or Token, are what clients must present; empty for nothing.
	User, Password, Token string
	// Auth, if set, lets the apiservers decide which clients may connect. Without it, and without a
	// user or token, every client may read and write everything.
	Auth *callout.Auth
	// AuthTimeout is how long the apiservers may take to identify a client; 0 means 2 s. While no
	// apiserver answers, it is also how long a client waits before it retries.
	AuthTimeout time.Duration
	// TLS, if set, makes clients connect by TLS.
	TLS *TLS
	// File, if set, is a configuration file of nats-server that replaces all the settings above.
	// Only Name, Port and StoreDir take precedence over it if they are set.
	File string
	// Logger may be nil.
	Logger *slog.Logger
}

// TLS names the certificate files of the server.
type TLS = callout.TLS

// authTimeout is how long the apiservers may take to identify a client, and how long a client may
// take for the TLS handshake.
const authTimeout = 2 * time.Second

// Limits of the subscriptions of one client, and of clients. A client needs one or two
// subscriptions for each view that it follows.
const (
	maxSubscriptions = 8192
	maxConnections   = 16 << 10
)

// Server is a NATS server.
type Server struct {
	cfg    Config
	nats   *server.Server
	logger *logger
}

// New checks the configuration and returns a server, which does nothing until Run.
func New(cfg Config) (*Server, error) {
	if cfg.Name == "" {
		cfg.Name = "garboard"
	}
	if cfg.Host == "" {
		cfg.Host = "127.0.0.1"
	}
	if cfg.MaxStore == 0 {
		cfg.MaxStore = 1 << 30
	}
	if cfg.StoreDir != "" {
		if err := os.MkdirAll(cfg.StoreDir, 0o700); err != nil {
			return nil, fmt.Errorf("creating the directory of the embedded NATS server: %w", err)
		}
	}
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	options, err := cfg.options()
	if err != nil {
		return nil, fmt.Errorf("configuring the embedded NATS server: %w", err)
	}
	srv, err := server.NewServer(options)
	if err != nil {
		return nil, fmt.Errorf("configuring the embedded NATS server: %w", err)
	}
	s := &Server{cfg: cfg, nats: srv, logger: &logger{log: log, fatal: make(chan struct{})}}
	srv.SetLoggerV2(s.logger, false, false, false)
	return s, nil
}

// options translates the configuration into that of nats-server.
func (c Config) options() (*server.Options, error) {
	port, silent := c.Port, false
	if port == NoListener {
		port, silent = RandomPort, true
	}
	if c.File != "" {
		options, err := server.ProcessConfigFile(c.File)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", c.File, err)
		}
		options.NoSigs, options.DontListen, options.ServerName, options.DisableJetStreamBanner = true, silent, c.Name, true
		if c.Port != NoListener {
			options.Port = port
		}
		if c.StoreDir != "" {
			options.StoreDir = c.StoreDir
		}
		return options, nil
	}
	options := &server.Options{
		ServerName:             c.Name,
		Host:                   c.Host,
		Port:                   port,
		DontListen:             silent,
		NoSigs:                 true,
		JetStream:              c.StoreDir != "",
		StoreDir:               c.StoreDir,
		JetStreamMaxStore:      c.MaxStore,
		JetStreamMaxMemory:     16 << 20,
		DisableJetStreamBanner: true,
		Username:               c.User,
		Password:               c.Password,
		Authorization:          c.Token,
		MaxSubs:                maxSubscriptions,
		MaxConn:                maxConnections,
		// A slow client loses messages, and notices. Otherwise each slow client would hold up the
		// apiserver that sends messages to all of them.
		NoFastProducerStall: true,
	}
	if c.Auth != nil {
		system := server.NewAccount(server.DEFAULT_SYSTEM_ACCOUNT)
		options.Accounts = []*server.Account{system}
		options.Nkeys = []*server.NkeyUser{{Nkey: c.Auth.User}, {Nkey: c.Auth.System, Account: system}}
		options.AuthCallout = &server.AuthCallout{
			Issuer: c.Auth.Issuer, Account: globalAccount, AuthUsers: []string{c.Auth.User, c.Auth.System},
		}
		options.AuthTimeout = cmp.Or(c.AuthTimeout, authTimeout).Seconds()
	}
	if c.TLS != nil {
		config, err := server.GenTLSConfig(&server.TLSConfigOpts{CertFile: c.TLS.CertFile, KeyFile: c.TLS.KeyFile, CaFile: c.TLS.ClientCAFile})
		if err != nil {
			return nil, err
		}
		if c.TLS.ClientCAFile != "" {
			config.ClientAuth = tls.VerifyClientCertIfGiven
		}
		options.TLS, options.TLSConfig, options.TLSTimeout = true, config, authTimeout.Seconds()
	}
	return options, nil
}

// globalAccount is nats-server's name of the account of clients when no accounts are configured.
const globalAccount = "$G"

// Run serves until ctx ends. It returns early, with the reason, if the server cannot start: for
// example, the port is taken or the directory cannot be read or written. A Server runs once.
func (s *Server) Run(ctx context.Context) error {
	started := make(chan struct{})
	go func() {
		defer close(started)
		s.nats.Start()
	}()
	select {
	case <-ctx.Done():
	case <-s.logger.fatal:
	}
	<-started
	s.nats.Shutdown()
	s.nats.WaitForShutdown()
	return s.failure()
}

func (s *Server) failure() error {
	select {
	case <-s.logger.fatal:
	default:
		return nil
	}
	at := net.JoinHostPort(s.cfg.Host, fmt.Sprint(s.cfg.Port))
	return fmt.Errorf("running the embedded NATS server (address %s, directory %s): %w", at, filepath.Clean(s.cfg.StoreDir), s.logger.err)
}

// Ready returns nil when the server accepts connections, or an error if it cannot start or ctx ends
// first.
func (s *Server) Ready(ctx context.Context) error {
	for {
		if s.nats.ReadyForConnections(50*time.Millisecond) && (s.cfg.StoreDir == "" || s.nats.JetStreamEnabled()) {
			return nil
		}
		if err := s.failure(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the embedded NATS server: %w", ctx.Err())
		case <-s.logger.fatal:
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// URL returns the address at which clients connect, once the server is ready; empty without a
// listener.
func (s *Server) URL() string {
	if s.cfg.Port == NoListener {
		return ""
	}
	return s.nats.ClientURL()
}

// Port returns the port of the listener, once the server is ready; 0 without one.
func (s *Server) Port() int {
	if addr, ok := s.nats.Addr().(*net.TCPAddr); ok {
		return addr.Port
	}
	return 0
}

// InProcess returns a function that opens connections without a port.
func (s *Server) InProcess() func() (net.Conn, error) { return s.nats.InProcessConn }

// logger forwards the server's log and keeps its fatal error.
type logger struct {
	log     *slog.Logger
	once    sync.Once
	err     error
	fatal   chan struct{}
	clients logsample.Gate
}

func (l *logger) Noticef(format string, v ...any) { l.forward(slog.LevelDebug, text(format, v)) }
func (l *logger) Warnf(format string, v ...any)   { l.forward(slog.LevelWarn, text(format, v)) }
func (l *logger) Debugf(format string, v ...any)  { l.forward(slog.LevelDebug, text(format, v)) }
func (l *logger) Tracef(format string, v ...any)  { l.forward(slog.LevelDebug, text(format, v)) }

func (l *logger) forward(level slog.Level, message string, args ...any) {
	l.log.Log(context.Background(), level, message, args...) //nolint:sloglint // nats-server wrote the message
}

// Errorf logs an error. Errors that any client can cause at will are rate-limited.
func (l *logger) Errorf(format string, v ...any) {
	what, held := text(format, v), 0
	if strings.Contains(what, " Violation") || strings.Contains(what, "authentication error") {
		var open bool
		if held, open = l.clients.Open(time.Now()); !open {
			return
		}
	}
	if held > 0 {
		l.forward(slog.LevelError, what, "notLogged", held)
		return
	}
	l.forward(slog.LevelError, what)
}

// Fatalf is called when the server cannot start; unlike nats-server's own, it returns.
func (l *logger) Fatalf(format string, v ...any) {
	l.once.Do(func() {
		l.err = errors.New(text(format, v))
		close(l.fatal)
	})
}

func text(format string, v []any) string {
	return "NATS: " + strings.TrimSpace(fmt.Sprintf(format, v...))
}
