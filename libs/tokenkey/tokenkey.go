// Package tokenkey has what the signers and the verifiers of service account tokens agree on: the ID and
// the algorithm of a key, and the issuer of the tokens in Secrets.
package tokenkey

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"
)

// SecretIssuer is the "iss" claim of tokens in Secrets (kubernetes, pkg/serviceaccount, LegacyIssuer).
const SecretIssuer = "kubernetes/serviceaccount"

// Public verifies signatures of service account tokens.
type Public struct {
	// ID names the key in the "kid" header of tokens. It is the same digest of the key as in
	// Kubernetes, so all apiservers use the same ID.
	ID string
	// Algorithm is the only algorithm the key is used with.
	Algorithm jose.SignatureAlgorithm
	// Key is an *rsa.PublicKey or *ecdsa.PublicKey.
	Key crypto.PublicKey
}

// NewPublic returns key with its ID and algorithm. It must be an RSA key, or an ECDSA key on P-256, P-384
// or P-521.
func NewPublic(key crypto.PublicKey) (Public, error) {
	algorithm, err := algorithmOf(key)
	if err != nil {
		return Public{}, err
	}
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return Public{}, fmt.Errorf("encoding a public key: %w", err)
	}
	digest := sha256.Sum256(der)
	return Public{ID: base64.RawURLEncoding.EncodeToString(digest[:]), Algorithm: algorithm, Key: key}, nil
}

func algorithmOf(key crypto.PublicKey) (jose.SignatureAlgorithm, error) {
	switch key := key.(type) {
	case *rsa.PublicKey:
		return jose.RS256, nil
	case *ecdsa.PublicKey:
		switch key.Curve {
		case elliptic.P256():
			return jose.ES256, nil
		case elliptic.P384():
			return jose.ES384, nil
		case elliptic.P521():
			return jose.ES512, nil
		}
		return "", errors.New("unknown curve of a key, must be 256, 384, or 521")
	}
	return "", fmt.Errorf("unknown type of key %T, must be RSA or ECDSA", key)
}

// NewSigner returns a signer of tokens that name the key, and its public key.
func NewSigner(key crypto.Signer) (jose.Signer, Public, error) {
	public, err := NewPublic(key.Public())
	if err != nil {
		return nil, Public{}, err
	}
	signer, err := jose.NewSigner(jose.SigningKey{
		Algorithm: public.Algorithm, Key: jose.JSONWebKey{Key: key, KeyID: public.ID, Algorithm: string(public.Algorithm), Use: "sig"},
	}, nil)
	if err != nil {
		return nil, Public{}, fmt.Errorf("creating the signer of service account tokens: %w", err)
	}
	return signer, public, nil
}
