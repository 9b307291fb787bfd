package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// ReadPatience bounds one read from etcd, which its client would otherwise retry for as long as the
// caller waits.
const ReadPatience = 10 * time.Second

// sizeTimeout bounds the query for the size of a database.
const sizeTimeout = time.Second

const (
	dialTimeout = 5 * time.Second
	// A member that is stopped but not dead keeps its connections, and requests to it wait until a
	// ping goes unanswered. gRPC does not ping more often than this.
	keepAliveTime    = 10 * time.Second
	keepAliveTimeout = 3 * time.Second
)

// reconnecting returns the back-off for members that were away. gRPC would wait up to two minutes,
// and so would the users of a plane whose etcd is already back.
func reconnecting() grpc.DialOption {
	return grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 500 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
		MinConnectTimeout: dialTimeout,
	})
}

// Config configures a Connection.
type Config struct {
	// Servers are the cluster's client URLs; at least one.
	Servers []string
	// CAFile, CertFile and KeyFile are PEM files for TLS; all empty for plain connections.
	CAFile, CertFile, KeyFile string
	// Prefix is the key below which the caller's objects are. Reads that ask for a revision only
	// name it; it need not exist.
	Prefix string
	// Logger receives what is not returned to any caller; required.
	Logger *slog.Logger
	// DialOptions are added to the connection.
	DialOptions []grpc.DialOption
}

// Connection is a connection to one etcd cluster. It is safe for concurrent use.
type Connection struct {
	// Client reads and writes.
	Client *clientv3.Client

	dial   clientv3.Config // what Client was made from
	prefix string
	logger *slog.Logger
}

// Connect returns a connection to the cluster; it does not wait for an answer. Close must be called.
func Connect(cfg Config) (*Connection, error) {
	tlsConfig, err := cfg.tls()
	if err != nil {
		return nil, err
	}
	dial := clientv3.Config{
		Logger:               quietLogger(cfg.Logger),
		Endpoints:            cfg.Servers,
		TLS:                  tlsConfig,
		DialTimeout:          dialTimeout,
		DialKeepAliveTime:    keepAliveTime,
		DialKeepAliveTimeout: keepAliveTimeout,
		DialOptions:          append([]grpc.DialOption{reconnecting()}, cfg.DialOptions...),
	}
	client, err := clientv3.New(dial)
	if err != nil {
		return nil, fmt.Errorf("connecting to etcd at %s: %w", strings.Join(cfg.Servers, ", "), err)
	}
	return &Connection{Client: client, dial: dial, prefix: cfg.Prefix, logger: cfg.Logger}, nil
}

// Close closes the connection. No call may be in progress or follow.
func (c *Connection) Close() error {
	if err := c.Client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("closing the connection to etcd: %w", err)
	}
	return nil
}

// Revision returns the current revision of the cluster, by a linearizable read: every
// write that was acknowledged before the call is at or below it.
func (c *Connection) Revision(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, ReadPatience)
	defer cancel()
	resp, err := c.Client.Get(ctx, c.prefix, clientv3.WithCountOnly())
	if err != nil {
		return 0, fmt.Errorf("reading etcd's revision: %w", APIError(err))
	}
	return resp.Header.Revision, nil
}

// Size returns the database size in bytes reported by the first member that answers; NaN if none
// does.
func (c *Connection) Size() float64 {
	ctx, cancel := context.WithTimeout(context.Background(), sizeTimeout)
	defer cancel()
	for _, endpoint := range c.Client.Endpoints() {
		if status, err := c.Client.Status(ctx, endpoint); err == nil {
			return float64(status.DbSize)
		}
	}
	return math.NaN()
}

func (cfg Config) tls() (*tls.Config, error) {
	if cfg.CAFile == "" && cfg.CertFile == "" && cfg.KeyFile == "" {
		return nil, nil
	}
	result := &tls.Config{MinVersion: tls.VersionTLS12}
	if cfg.CAFile != "" {
		pem, err := os.ReadFile(cfg.CAFile)
		if err != nil {
			return nil, fmt.Errorf("reading etcd's CA: %w", err)
		}
		result.RootCAs = x509.NewCertPool()
		if !result.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("reading etcd's CA: %s contains no certificate", cfg.CAFile)
		}
	}
	if cfg.CertFile != "" || cfg.KeyFile != "" {
		// Read the files at each connect, since they may have been renewed.
		read := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			cert, err := tls.LoadX509KeyPair(cfg.CertFile, cfg.KeyFile)
			if err != nil {
				return nil, fmt.Errorf("reading the certificate for etcd: %w", err)
			}
			return &cert, nil
		}
		if _, err := read(nil); err != nil {
			return nil, err
		}
		result.GetClientCertificate = read
	}
	return result, nil
}

// Answered returns the key that one part of a transaction's response holds; nil if it does not
// exist, or if the response has no such part.
func Answered(resp *clientv3.TxnResponse, part int) *mvccpb.KeyValue {
	if part >= len(resp.Responses) {
		return nil
	}
	if kvs := resp.Responses[part].GetResponseRange().GetKvs(); len(kvs) > 0 {
		return kvs[0]
	}
	return nil
}
