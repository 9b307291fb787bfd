// Package embedded runs a NATS server with JetStream in this process, for the standalone
// plane and for tests.
package embedded

import (
	"context"
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
)

// Ports of a Config that are no port.
const (
	// RandomPort has the system choose a free port.
	RandomPort = -1
	// NoListener opens no port: only InProcess connects.
	NoListener = 0
)

// Config says how the server is reached and where it keeps its streams.
type Config struct {
	// Name is the server's name; empty for "garboard".
	Name string
	// Host is the address to listen at; empty for 127.0.0.1.
	Host string
	// Port is a port, RandomPort, or NoListener.
	Port int
	// StoreDir is the folder of JetStream, made if it is not there; without one there is no
	// JetStream.
	StoreDir string
	// MaxStore bounds what JetStream keeps, in bytes; 0 for 1 GiB.
	MaxStore int64
	// User and Password, or Token, are what clients must show; empty for nothing.
	User, Password, Token string
	// Logger may be nil.
	Logger *slog.Logger
}

// Server is a NATS server.
type Server struct {
	cfg    Config
	nats   *server.Server
	logger *logger
}

// New checks the configuration and makes a server, which does nothing until Run.
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
			return nil, fmt.Errorf("making the folder of the embedded NATS server: %w", err)
		}
	}
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	port, silent := cfg.Port, false
	if port == NoListener {
		port, silent = RandomPort, true
	}
	srv, err := server.NewServer(&server.Options{
		ServerName:             cfg.Name,
		Host:                   cfg.Host,
		Port:                   port,
		DontListen:             silent,
		NoSigs:                 true,
		JetStream:              cfg.StoreDir != "",
		StoreDir:               cfg.StoreDir,
		JetStreamMaxStore:      cfg.MaxStore,
		JetStreamMaxMemory:     16 << 20,
		DisableJetStreamBanner: true,
		Username:               cfg.User,
		Password:               cfg.Password,
		Authorization:          cfg.Token,
	})
	if err != nil {
		return nil, fmt.Errorf("configuring the embedded NATS server: %w", err)
	}
	s := &Server{cfg: cfg, nats: srv, logger: &logger{log: log, fatal: make(chan struct{})}}
	srv.SetLoggerV2(s.logger, false, false, false)
	return s, nil
}

// Run serves until ctx ends. It returns early, with the reason, if the server cannot start: a
// port that is taken, a folder that cannot be written or read. A Server runs once.
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
	return fmt.Errorf("running the embedded NATS server (address %s, folder %s): %w", at, filepath.Clean(s.cfg.StoreDir), s.logger.err)
}

// Ready returns when the server takes connections; with an error if it cannot start or ctx
// ends before.
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

// URL is where clients connect, once the server is ready; empty without a listener.
func (s *Server) URL() string {
	if s.cfg.Port == NoListener {
		return ""
	}
	return s.nats.ClientURL()
}

// Port is the port of the listener, once the server is ready; 0 without one.
func (s *Server) Port() int {
	if addr, ok := s.nats.Addr().(*net.TCPAddr); ok {
		return addr.Port
	}
	return 0
}

// InProcess opens connections that need no port.
func (s *Server) InProcess() func() (net.Conn, error) { return s.nats.InProcessConn }

// logger hands the server's log on, and keeps its last words.
type logger struct {
	log   *slog.Logger
	once  sync.Once
	err   error
	fatal chan struct{}
}

func (l *logger) Noticef(format string, v ...any) { l.log.Debug(text(format, v)) }
func (l *logger) Warnf(format string, v ...any)   { l.log.Warn(text(format, v)) }
func (l *logger) Errorf(format string, v ...any)  { l.log.Error(text(format, v)) }
func (l *logger) Debugf(format string, v ...any)  { l.log.Debug(text(format, v)) }
func (l *logger) Tracef(format string, v ...any)  { l.log.Debug(text(format, v)) }

// Fatalf is called when the server cannot start; it goes on as if nothing had happened.
func (l *logger) Fatalf(format string, v ...any) {
	l.once.Do(func() {
		l.err = errors.New(text(format, v))
		close(l.fatal)
	})
}

func text(format string, v []any) string {
	return "NATS: " + strings.TrimSpace(fmt.Sprintf(format, v...))
}
