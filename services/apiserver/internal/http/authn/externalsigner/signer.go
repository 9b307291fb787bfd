// Package externalsigner signs service account tokens in another process, which keeps the private keys,
// for example in a hardware module or a cloud's key service. The process serves Kubernetes'
// ExternalJWTSigner API over gRPC on a Unix socket of the apiserver's machine (KEP 740).
package externalsigner

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	externaljwt "k8s.io/externaljwt/apis/v1"
)

// Bounds, in Kubernetes' API unless said otherwise.
const (
	maxKeyID = 1024 // bytes
	minLife  = 10 * time.Minute
	// startTimeout is for how long a start waits for the process, and callTimeout bounds each later
	// call; both are ours.
	startTimeout = time.Minute
	callTimeout  = 10 * time.Second
)

// algorithms are those with which service account tokens may be signed.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.ES384, jose.ES512}

// Config configures a Signer. Every field is required.
type Config struct {
	// Endpoint is the path of the process's socket, or @NAME for an abstract one.
	Endpoint   string
	Registerer prometheus.Registerer
	Logger     *slog.Logger
}

// Signer signs tokens by calls to another process, and keeps the public keys of it.
type Signer struct {
	cfg     Config
	conn    *grpc.ClientConn
	client  externaljwt.ExternalJWTSignerClient
	metrics *metrics
	now     func() time.Time

	maxLife time.Duration // set by Start
	current atomic.Pointer[keySet]
	// fetching is held by who fetches keys, and guards tried: when that was last done.
	fetching chan struct{}
	tried    time.Time
}

// New returns a signer. It connects to nothing.
func New(cfg Config) (*Signer, error) {
	s := &Signer{cfg: cfg, metrics: newMetrics(cfg.Registerer), now: time.Now, fetching: make(chan struct{}, 1)}
	conn, err := grpc.NewClient("passthrough:///"+cfg.Endpoint,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"),
		grpc.WithContextDialer(func(ctx context.Context, path string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}),
		grpc.WithChainUnaryInterceptor(s.metrics.observe),
	)
	if err != nil {
		return nil, fmt.Errorf("preparing the connection to the signer of service account tokens at %s: %w", cfg.Endpoint, err)
	}
	s.conn, s.client = conn, externaljwt.NewExternalJWTSignerClient(conn)
	s.current.Store(&keySet{})
	return s, nil
}

// Close ends the connection.
func (s *Signer) Close() error { return s.conn.Close() }

// Start waits up to a minute for the process, and learns its keys and its limit.
func (s *Signer) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	s.cfg.Logger.Info("asking the external signer of service account tokens for its keys", "endpoint", s.cfg.Endpoint, "timeout", startTimeout)
	answer, err := s.client.Metadata(ctx, &externaljwt.MetadataRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return fmt.Errorf("asking the signer of service account tokens at %s for its limits; check that it runs and serves k8s.io/externaljwt v1: %w", s.cfg.Endpoint, err)
	}
	seconds := answer.GetMaxTokenExpirationSeconds()
	if seconds < int64(minLife/time.Second) {
		return fmt.Errorf("the signer of service account tokens at %s signs for at most %d s, less than the %d s that a token lives at least",
			s.cfg.Endpoint, seconds, int64(minLife/time.Second))
	}
	s.maxLife = seconded(seconds)
	return s.fetch(ctx, grpc.WaitForReady(true))
}

// MaxLife returns the longest lifetime of a token that the process signs. It is known after Start.
func (s *Signer) MaxLife() time.Duration { return s.maxLife }

// Sign returns the JWT with the given payload, in compact form.
func (s *Signer) Sign(ctx context.Context, payload []byte) (string, error) {
	token, err := s.sign(ctx, payload)
	s.metrics.signed.WithLabelValues(code(err)).Inc()
	if err != nil {
		return "", fmt.Errorf("signing a service account token at %s: %w", s.cfg.Endpoint, err)
	}
	return token, nil
}

func (s *Signer) sign(ctx context.Context, payload []byte) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	claims := base64.RawURLEncoding.EncodeToString(payload)
	answer, err := s.client.Sign(ctx, &externaljwt.SignJWTRequest{Claims: claims})
	if err != nil {
		return "", err
	}
	if err := s.checkHeader(ctx, answer.GetHeader()); err != nil {
		return "", fmt.Errorf("in the header of the signed token: %w", err)
	}
	if signature, err := base64.RawURLEncoding.DecodeString(answer.GetSignature()); err != nil || len(signature) == 0 {
		return "", errors.New("the signature is empty or not in URL-safe base64")
	}
	return answer.GetHeader() + "." + claims + "." + answer.GetSignature(), nil
}

// checkHeader returns an error if the verifiers of tokens, here or elsewhere, could not use the header.
func (s *Signer) checkHeader(ctx context.Context, encoded string) error {
	data, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return fmt.Errorf("decoding it: %w", err)
	}
	var header struct {
		Algorithm jose.SignatureAlgorithm `json:"alg"`
		KeyID     string                  `json:"kid"`
		Type      string                  `json:"typ"`
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&header); err != nil {
		return fmt.Errorf("decoding it: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("data follows its end")
	}
	switch {
	case header.Type != "JWT":
		return fmt.Errorf("the type is %.20q, must be JWT", header.Type)
	case header.KeyID == "" || len(header.KeyID) > maxKeyID:
		return fmt.Errorf("the ID of the key has %d bytes, must have 1 to %d", len(header.KeyID), maxKeyID)
	case !slices.Contains(algorithms, header.Algorithm):
		return fmt.Errorf("the algorithm is %.20q, must be one of %q", header.Algorithm, algorithms)
	}
	set, err := s.knowing(ctx, header.KeyID)
	if err != nil {
		return err
	}
	for _, key := range set.keys {
		switch {
		case key.ID != header.KeyID:
		case key.hidden:
			return fmt.Errorf("the key %.100q is only for old tokens, since other programs cannot find it", key.ID)
		case key.Algorithm != header.Algorithm:
			return fmt.Errorf("the algorithm is %s, but that of the key %.100q is %s", header.Algorithm, key.ID, key.Algorithm)
		default:
			return nil
		}
	}
	return fmt.Errorf("the key %.100q is not among those of the signer", header.KeyID)
}
