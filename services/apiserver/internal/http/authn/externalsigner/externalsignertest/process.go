// Package externalsignertest runs a process that signs service account tokens, for tests.
package externalsignertest

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"
	externaljwt "k8s.io/externaljwt/apis/v1"

	"github.com/garboard/garboard/libs/tokenkey"
)

// Process serves the API of a signer on a Unix socket. Its fields may be changed while Do runs.
type Process struct {
	externaljwt.UnimplementedExternalJWTSignerServer

	// Endpoint is the path of the socket.
	Endpoint string
	// MaxSeconds is the longest lifetime of a token, an hour and a half in the beginning.
	MaxSeconds int64
	// Keys are the public keys, and Refresh in how many seconds they are to be fetched again.
	Keys    []*externaljwt.Key
	Refresh int64
	// Header and Signature change what the signer sends.
	Header, Signature func(string) string
	// Fetches and Signatures count the calls.
	Fetches, Signatures int

	mu     sync.Mutex
	signer jose.Signer
}

// Start starts a process with one key, "first", which ends with the test.
func Start(t testing.TB) *Process {
	t.Helper()
	p := &Process{Endpoint: filepath.Join(t.TempDir(), "s"), MaxSeconds: 90 * 60, Refresh: 3600}
	p.Use(t, "first")
	listener, err := net.Listen("unix", p.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	server, served := grpc.NewServer(), make(chan error, 1)
	externaljwt.RegisterExternalJWTSignerServer(server, p)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return p
}

// Use makes the process sign with a new key of the given ID, which it appends to its keys.
func (p *Process) Use(t testing.TB, id string) crypto.PublicKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{
		Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: id},
	}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		t.Fatal(err)
	}
	p.Do(func() {
		p.signer = signer
		p.Keys = append(p.Keys, &externaljwt.Key{KeyId: id, Key: der})
	})
	return key.Public()
}

// Do calls do while no call of the API is served.
func (p *Process) Do(do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	do()
}

// Metadata returns the longest lifetime of a token.
func (p *Process) Metadata(context.Context, *externaljwt.MetadataRequest) (*externaljwt.MetadataResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &externaljwt.MetadataResponse{MaxTokenExpirationSeconds: p.MaxSeconds}, nil
}

// FetchKeys returns the keys.
func (p *Process) FetchKeys(context.Context, *externaljwt.FetchKeysRequest) (*externaljwt.FetchKeysResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Fetches++
	return &externaljwt.FetchKeysResponse{Keys: p.Keys, DataTimestamp: timestamppb.Now(), RefreshHintSeconds: p.Refresh}, nil
}

// Sign signs claims with the key that was made last.
func (p *Process) Sign(_ context.Context, r *externaljwt.SignJWTRequest) (*externaljwt.SignJWTResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Signatures++
	payload, err := base64.RawURLEncoding.DecodeString(r.GetClaims())
	if err != nil {
		return nil, err
	}
	signed, err := p.signer.Sign(payload)
	if err != nil {
		return nil, err
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		return nil, err
	}
	parts := strings.Split(token, ".")
	answer := &externaljwt.SignJWTResponse{Header: parts[0], Signature: parts[2]}
	if p.Header != nil {
		answer.Header = p.Header(answer.Header)
	}
	if p.Signature != nil {
		answer.Signature = p.Signature(answer.Signature)
	}
	return answer, nil
}

// Public returns the ID and the key of each of keys, for comparison.
func Public(keys []tokenkey.Public) map[string]crypto.PublicKey {
	found := map[string]crypto.PublicKey{}
	for _, key := range keys {
		found[key.ID] = key.Key
	}
	return found
}
