package authn

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/garboard/garboard/libs/tokenkey"
)

// TokenKeys sign service account tokens, and hold the public keys that verify them.
type TokenKeys interface {
	// Sign returns the JWT with the given payload, in compact form.
	Sign(ctx context.Context, payload []byte) (string, error)
	// Find returns the keys that may have signed a token which names the key with the given ID; all
	// keys if it names none.
	Find(ctx context.Context, id string) ([]tokenkey.Public, error)
	// Published returns the keys with which other programs verify tokens, and for how long they may
	// remember them.
	Published() ([]tokenkey.Public, time.Duration)
	// Generation returns a number that changes when a key is replaced or withdrawn.
	Generation() uint64
}

// localMaxAge is for how long the keys of LocalKeys may be remembered, Kubernetes' value.
const localMaxAge = time.Hour

// LocalKeys are a private key of this server, and further public keys.
type LocalKeys struct {
	signer jose.Signer
	keys   []tokenkey.Public
}

// NewLocalKeys returns keys that sign with key, and verify with it and with further ones.
func NewLocalKeys(key *ecdsa.PrivateKey, further ...tokenkey.Public) (*LocalKeys, error) {
	signer, own, err := tokenkey.NewSigner(key)
	if err != nil {
		return nil, err
	}
	l := &LocalKeys{signer: signer, keys: []tokenkey.Public{own}}
	for _, key := range further {
		if key.ID != own.ID {
			l.keys = append(l.keys, key)
		}
	}
	return l, nil
}

// Sign returns the JWT with the given payload.
func (l *LocalKeys) Sign(_ context.Context, payload []byte) (string, error) {
	signed, err := l.signer.Sign(payload)
	if err != nil {
		return "", fmt.Errorf("signing a service account token: %w", err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		return "", fmt.Errorf("encoding a service account token: %w", err)
	}
	return token, nil
}

// Find returns the keys with the given ID, or all if it is empty.
func (l *LocalKeys) Find(_ context.Context, id string) ([]tokenkey.Public, error) {
	if id == "" {
		return l.keys, nil
	}
	for i, key := range l.keys {
		if key.ID == id {
			return l.keys[i : i+1], nil
		}
	}
	return nil, nil
}

// Published returns all keys, first the one that signs.
func (l *LocalKeys) Published() ([]tokenkey.Public, time.Duration) {
	return slices.Clone(l.keys), localMaxAge
}

// Generation returns 0: the keys stay the same.
func (l *LocalKeys) Generation() uint64 { return 0 }
