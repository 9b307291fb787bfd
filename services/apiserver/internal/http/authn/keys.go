package authn

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/garboard/garboard/libs/tokenkey"
)

// ParsePublicKeys parses a PEM file of public keys, certificates or private keys, and returns their
// public keys.
func ParsePublicKeys(data []byte) ([]tokenkey.Public, error) {
	var keys []tokenkey.Public
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		found, err := parseKey(block)
		if err != nil {
			return nil, fmt.Errorf("PEM block %d (%s): %w", len(keys)+1, block.Type, err)
		}
		key, err := tokenkey.NewPublic(found)
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
