package authn

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"
)

// PublicKey verifies signatures of service account tokens.
type PublicKey struct {
	// ID names the key in the "kid" header of tokens. It is the same digest of the key as in
	// Kubernetes, so all apiservers use the same ID.
	ID string
	// Algorithm is the only algorithm the key is used with.
	Algorithm jose.SignatureAlgorithm
	// Key is an *rsa.PublicKey or *ecdsa.PublicKey.
	Key crypto.PublicKey
}

// NewPublicKey returns key with its ID and algorithm.
func NewPublicKey(key crypto.PublicKey) (PublicKey, error) {
	algorithm, err := algorithmOf(key)
	if err != nil {
		return PublicKey{}, err
	}
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return PublicKey{}, fmt.Errorf("encoding a public key: %w", err)
	}
	digest := sha256.Sum256(der)
	return PublicKey{ID: base64.RawURLEncoding.EncodeToString(digest[:]), Algorithm: algorithm, Key: key}, nil
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

// ParsePublicKeys parses a PEM file of public keys, certificates or private keys, and returns their
// public keys.
func ParsePublicKeys(data []byte) ([]PublicKey, error) {
	var keys []PublicKey
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		found, err := parseKey(block)
		if err != nil {
			return nil, fmt.Errorf("PEM block %d (%s): %w", len(keys)+1, block.Type, err)
		}
		key, err := NewPublicKey(found)
		if err != nil {
			return nil, fmt.Errorf("PEM block %d (%s): %w", len(keys)+1, block.Type, err)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("the file holds no PEM key")
	}
	return keys, nil
}

func parseKey(block *pem.Block) (crypto.PublicKey, error) {
	switch block.Type {
	case "PUBLIC KEY":
		return x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		return x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		return cert.PublicKey, nil
	case "RSA PRIVATE KEY":
		key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
		if err != nil {
			return nil, err
		}
		return key.Public(), nil
	case "EC PRIVATE KEY":
		key, err := x509.ParseECPrivateKey(block.Bytes)
		if err != nil {
			return nil, err
		}
		return key.Public(), nil
	case "PRIVATE KEY":
		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return nil, err
		}
		if key, ok := parsed.(crypto.Signer); ok {
			return key.Public(), nil
		}
	}
	return nil, errors.New("the block holds no key")
}
