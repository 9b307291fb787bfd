package standalone

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/garboard/garboard/libs/lifecycle"
)

// maxSocketPath is the longest path of a Unix socket that every system accepts.
const maxSocketPath = 100

// etcd is the embedded etcd: one member, reached over a Unix socket that only this user can open,
// so that it needs no certificate and no port.
type etcd struct {
	dir     string
	sockets string // folder of the sockets
	log     *slog.Logger
	ready   chan struct{}
	// stopping silences etcd's complaints about connections that are closed on purpose.
	stopping atomic.Bool
}

func newEtcd(dataDir string, log *slog.Logger) (*etcd, error) {
	e := &etcd{
		dir: filepath.Join(dataDir, "etcd"), sockets: filepath.Join(dataDir, "sockets"),
		log: log.With("service", "etcd"), ready: make(chan struct{}),
	}
	if len(e.socket("client")) > maxSocketPath {
		sockets, err := os.MkdirTemp("", "garboard-")
		if err != nil {
			return nil, fmt.Errorf("creating a folder for etcd's sockets, because the path %s is too long for them: %w", dataDir, err)
		}
		e.sockets = sockets
	}
	if err := os.MkdirAll(e.sockets, 0o700); err != nil {
		return nil, fmt.Errorf("creating the folder for etcd's sockets: %w", err)
	}
	return e, nil
}

// endpoint returns the URL for clients.
func (e *etcd) endpoint() string { return "unix://" + e.socket("client") }

func (e *etcd) socket(name string) string { return filepath.Join(e.sockets, name+".sock") }

func (e *etcd) stage() lifecycle.Stage {
	return lifecycle.Stage{Name: "etcd", Run: e.run, Ready: func(ctx context.Context) error {
		select {
		case <-e.ready:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
}

func (e *etcd) run(ctx context.Context) error {
	defer func() { _ = os.RemoveAll(e.sockets) }()
	server, err := e.start()
	if err != nil {
		return fmt.Errorf("starting etcd on the data in %s: %w; restore that folder from a backup, or start with an empty --data-dir", e.dir, err)
	}
	defer server.Close()
	defer e.stopping.Store(true)
	select {
	case <-server.Server.ReadyNotify():
		close(e.ready)
	case err := <-server.Err():
		return err
	case <-ctx.Done():
		return nil
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-server.Err():
		return err
	}
}

// start turns etcd's fatal exit on bad data into an error.
func (e *etcd) start() (server *embed.Etcd, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			server, err = nil, fmt.Errorf("%v", problem)
		}
	}()
	if err := e.readable(); err != nil {
		return nil, err
	}
	config := embed.NewConfig()
	config.Name, config.Dir = "garboard", e.dir
	client, peer := unixURL(e.socket("client")), unixURL(e.socket("peer"))
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	config.InitialCluster = config.Name + "=" + peer.String()
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.New(bridge{e.log, &e.stopping}, zap.WithFatalHook(zapcore.WriteThenPanic)))
	return embed.StartEtcd(config)
}

// readable opens the database before etcd does. etcd opens it in a goroutine of its own, where a
// panic on bad data cannot be caught.
func (e *etcd) readable() error {
	path := filepath.Join(e.dir, "member", "snap", "db")
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return fmt.Errorf("reading its database: %w", err)
	}
	return db.Close()
}

func unixURL(path string) url.URL { return url.URL{Scheme: "unix", Path: path} }

// bridge sends etcd's log to slog, its warnings at level info: on a laptop they are mostly about a
// slow disk.
type bridge struct {
	log      *slog.Logger
	stopping *atomic.Bool
}

func (b bridge) Enabled(level zapcore.Level) bool { return level >= zapcore.WarnLevel }

func (b bridge) With(fields []zapcore.Field) zapcore.Core {
	return bridge{b.log.With(attributes(fields)...), b.stopping}
}

func (b bridge) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if b.Enabled(entry.Level) {
		return checked.AddCore(entry, b)
	}
	return checked
}

func (b bridge) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	level := slog.LevelInfo
	if entry.Level > zapcore.WarnLevel && !b.stopping.Load() {
		level = slog.LevelError
	}
	b.log.Log(context.Background(), level, entry.Message, attributes(fields)...) //nolint:sloglint // etcd wrote the message
	return nil
}

func (b bridge) Sync() error { return nil }

func attributes(fields []zapcore.Field) []any {
	encoder := zapcore.NewMapObjectEncoder()
	for _, field := range fields {
		field.AddTo(encoder)
	}
	list := make([]any, 0, 2*len(encoder.Fields))
	for key, value := range encoder.Fields {
		list = append(list, key, value)
	}
	return list
}
