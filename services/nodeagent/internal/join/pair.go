package join

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/garboard/garboard/libs/pki"
)

const (
	// CurrentFile is the certificate in use and its key, in one file.
	CurrentFile = "nodeagent-client-current.pem"
	// pendingFile is the key of the certificate that is asked for, so that an agent that is
	// started again goes on with its request.
	pendingFile = "nodeagent-client.key.tmp"

	userPrefix = "system:node:"
	nodesGroup = "system:nodes"
)

// pair is a certificate with its key.
type pair struct {
	leaf      *x509.Certificate
	cert, key []byte // PEM
}

// parsePair reads a certificate and a key, each of which may be in a text with other things.
func parsePair(cert, key []byte) (*pair, error) {
	parsed, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	return &pair{leaf: parsed.Leaf, cert: cert, key: key}, nil
}

// errOther says that a certificate is that of another node.
var errOther = errors.New("the certificate of another node")

// check says whether a certificate is that of a node.
func (p *pair) check(node string) error {
	if got := p.leaf.Subject.CommonName; got != userPrefix+node {
		return fmt.Errorf("%w: it is for %q, and this node is %q", errOther, got, node)
	}
	return nil
}

// load reads the certificate in use; nil if there is none.
func load(path string) (*pair, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the node's certificate: %w", err)
	}
	found, err := parsePair(text, text)
	if err != nil {
		return nil, fmt.Errorf("reading the node's certificate in %s: %w", path, err)
	}
	return found, nil
}

// store replaces the certificate in use.
func (p *pair) store(path string) error {
	return pki.Files{}.Write(path, append(append([]byte{}, p.cert...), p.key...), pki.Secret)
}

// pendingKey is the key of the certificate that is asked for, made if there is none.
func pendingKey(dir string) (crypto.Signer, []byte, error) {
	path := filepath.Join(dir, pendingFile)
	text, err := os.ReadFile(path)
	if err == nil {
		if block, _ := pem.Decode(text); block != nil {
			if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
				return key, text, nil
			}
		}
		// A damaged one is of no use to anybody.
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("reading the key of the node's next certificate: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making a key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding a key: %w", err)
	}
	text = pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	return key, text, pki.Files{}.Write(path, text, pki.Secret)
}

// forgetPending has the next certificate asked for with another key.
func forgetPending(dir string) error {
	if err := os.Remove(filepath.Join(dir, pendingFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the key of the node's last request: %w", err)
	}
	return nil
}
