package serviceaccounttoken

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/tokenkey"
)

// Signer signs the tokens that are kept in Secrets.
type Signer struct{ jose jose.Signer }

// NewSigner reads a private RSA or ECDSA key from a PEM file. It must be one whose signatures the
// apiservers accept.
func NewSigner(keyFile string) (*Signer, error) {
	data, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, fmt.Errorf("reading the key that signs service account tokens: %w", err)
	}
	key, err := parseKey(data)
	if err != nil {
		return nil, fmt.Errorf("reading the key that signs service account tokens from %s: %w", keyFile, err)
	}
	signer, _, err := tokenkey.NewSigner(key)
	if err != nil {
		return nil, fmt.Errorf("using the key in %s, which signs service account tokens: %w", keyFile, err)
	}
	return &Signer{signer}, nil
}

// parseKey returns the first private key of a PEM file. Other blocks, such as EC PARAMETERS, may come before.
func parseKey(data []byte) (crypto.Signer, error) {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		var key any
		var err error
		switch block.Type {
		case "EC PRIVATE KEY":
			key, err = x509.ParseECPrivateKey(block.Bytes)
		case "RSA PRIVATE KEY":
			key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
		case "PRIVATE KEY":
			key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		default:
			continue
		}
		if err != nil {
			return nil, err
		}
		if signer, ok := key.(crypto.Signer); ok {
			return signer, nil
		}
	}
	return nil, errors.New("it holds no private key in PEM")
}

// claims are those of Kubernetes' tokens in Secrets. Such a token does not expire.
type claims struct {
	Issuer      string    `json:"iss"`
	Subject     string    `json:"sub"`
	Namespace   string    `json:"kubernetes.io/serviceaccount/namespace"`
	SecretName  string    `json:"kubernetes.io/serviceaccount/secret.name"`
	AccountName string    `json:"kubernetes.io/serviceaccount/service-account.name"`
	AccountUID  types.UID `json:"kubernetes.io/serviceaccount/service-account.uid"`
}

// token returns the token of a service account that is to be kept in a Secret.
func (s *Signer) token(account *corev1.ServiceAccount, secret *corev1.Secret) ([]byte, error) {
	token, err := jwt.Signed(s.jose).Claims(claims{
		Issuer: tokenkey.SecretIssuer, Subject: "system:serviceaccount:" + account.Namespace + ":" + account.Name,
		Namespace: account.Namespace, SecretName: secret.Name, AccountName: account.Name, AccountUID: account.UID,
	}).Serialize()
	if err != nil {
		return nil, fmt.Errorf("signing the token of the service account %s/%s: %w", account.Namespace, account.Name, err)
	}
	return []byte(token), nil
}
