package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Secrecy determines who may read a file.
type Secrecy bool

// Secrecies of files.
const (
	// Secret is a file that only its owner may read.
	Secret Secrecy = true
	// Public is a file without secrets.
	Public Secrecy = false
)

// Owner is the owner of files.
type Owner struct{ UID, GID int }

// Files determines how files are written. The zero value writes them for this process's user alone.
type Files struct {
	// Owner is the owner of the files; nil means this process's user.
	Owner *Owner
	// PublicMode are the permissions of files without secrets; 0 means 0600.
	PublicMode fs.FileMode
}

// Mode returns the permissions of a file.
func (f Files) Mode(secrecy Secrecy) fs.FileMode {
	if secrecy == Secret || f.PublicMode == 0 {
		return 0o600
	}
	return f.PublicMode
}

// Write replaces a file atomically: concurrent readers see the old file or the new one.
func (f Files) Write(path string, data []byte, secrecy Secrecy) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	_, err = file.Write(data)
	if err == nil {
		err = file.Chmod(f.Mode(secrecy))
	}
	if err == nil && f.Owner != nil {
		err = file.Chown(f.Owner.UID, f.Owner.GID)
	}
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// OpenKey reads an ECDSA key on P-256, or generates one if there is none. consequence says what
// replacing a damaged key would entail, for the error.
func OpenKey(files Files, path, consequence string) (*ecdsa.PrivateKey, Outcome, error) {
	_, err := os.Stat(path)
	if err == nil {
		key, err := ReadKey(path, consequence)
		return key, Kept, err
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, Kept, fmt.Errorf("reading a key: %w", err)
	}
	key, err := newKey(path)
	if err != nil {
		return nil, Made, err
	}
	return key, Made, writeKey(files, path, key)
}

// ReadKey reads an ECDSA key on P-256. The error is fs.ErrNotExist if there is none.
func ReadKey(path, consequence string) (*ecdsa.PrivateKey, error) {
	signer, err := readSigner(path, consequence)
	if err != nil {
		return nil, err
	}
	key, ok := signer.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, damaged(path, errors.New("it is not an ECDSA key on P-256"), consequence)
	}
	return key, nil
}

// readSigner reads a key of any kind: an authority may come from elsewhere.
func readSigner(path, consequence string) (crypto.Signer, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading a key: %w", err)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, damaged(path, errors.New("it holds no PEM key"), consequence)
	}
	if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, damaged(path, err, consequence)
	}
	key, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, damaged(path, errors.New("it is not a signing key"), consequence)
	}
	return key, nil
}

func newKey(what string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating the key of %s: %w", what, err)
	}
	return key, nil
}

func encodeKey(what string, key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding the key of %s: %w", what, err)
	}
	return encodePEM("PRIVATE KEY", der), nil
}

func writeKey(files Files, path string, key *ecdsa.PrivateKey) error {
	data, err := encodeKey(path, key)
	if err != nil {
		return err
	}
	return files.Write(path, data, Secret)
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func damaged(path string, err error, consequence string) error {
	return fmt.Errorf("%s is damaged (%w); restore it from a backup, or remove the whole directory to regenerate all keys (%s)", path, err, consequence)
}
