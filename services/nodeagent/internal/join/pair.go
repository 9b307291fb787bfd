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
	// currentFile holds the current certificate and its key, in one file.
	currentFile = "nodeagent-client-current.pem"
	// pendingFile holds the key of the requested certificate, so that a restarted agent continues
	// with its request.
	pendingFile = "nodeagent-client.key.tmp"

	userPrefix = "system:node:"
	nodesGroup = "system:nodes"
)

// pair is a certificate and its key.
type pair struct {
	leaf      *x509.Certificate
	cert, key []byte // PEM
}

// parsePair parses a certificate and a key; each text may contain other PEM blocks.
func parsePair(cert, key []byte) (*pair, error) {
	parsed, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	return &pair{leaf: parsed.Leaf, cert: cert, key: key}, nil
}

// errOther reports that a certificate is another node's.
var errOther = errors.New("the certificate of another node")

// check returns an error unless the certificate is that of the node.
func (p *pair) check(node string) error {
	if got := p.leaf.Subject.CommonName; got != userPrefix+node {
		return fmt.Errorf("%w: it is for %q, and this node is %q", errOther, got, node)
	}
	return nil
}

// load reads the current certificate; nil if there is none.
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

// store replaces the current certificate.
func (p *pair) store(path string) error {
	return pki.Files{}.Write(path, append(append([]byte{}, p.cert...), p.key...), pki.Secret)
}

// pendingKey returns the key of the requested certificate, creating it if there is none.
func pendingKey(dir string) (crypto.Signer, []byte, error) {
	path := filepath.Join(dir, pendingFile)
	text, err := os.ReadFile(path)
	if err == nil {
		if block, _ := pem.Decode(text); block != nil {
			if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
				return key, text, nil
			}
		}
		// A damaged key is replaced below.
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("reading the key of the node's next certificate: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generating a key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding a key: %w", err)
	}
	text = pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	return key, text, pki.Files{}.Write(path, text, pki.Secret)
}

// forgetPending makes the next request use another key.
func forgetPending(dir string) error {
	if err := os.Remove(filepath.Join(dir, pendingFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the key of the node's last request: %w", err)
	}
	return nil
}
