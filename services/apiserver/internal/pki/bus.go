package pki

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/garboard/garboard/libs/bus/callout"
)

// Names of the files of the keys for NATS.
const (
	busIssuerFile = "nats-issuer.seed"
	busUserFile   = "nats-apiserver.seed"
	// BusConfigFile tells nats-servers the public halves.
	BusConfigFile = "nats-auth.conf"
)

// OpenBus reads the apiservers' keys for NATS from the folder, making what is missing, and
// writes the configuration that nats-servers are to include.
func OpenBus(dir string) (*callout.Keys, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of certificates: %w", err)
	}
	issuer, err := openSeed(filepath.Join(dir, busIssuerFile), callout.NewIssuer)
	if err != nil {
		return nil, err
	}
	user, err := openSeed(filepath.Join(dir, busUserFile), callout.NewUser)
	if err != nil {
		return nil, err
	}
	keys, err := callout.ParseKeys(issuer, user)
	if err != nil {
		return nil, damaged(filepath.Join(dir, busIssuerFile)+" or "+filepath.Join(dir, busUserFile), err, "NATS must then be given the new "+BusConfigFile)
	}
	path := filepath.Join(dir, BusConfigFile)
	have, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the configuration for NATS: %w", err)
	}
	if want := keys.Configuration(); !bytes.Equal(have, want) {
		return keys, writeFile(path, want)
	}
	return keys, nil
}

// openSeed reads a key, or makes one when there is none.
func openSeed(path string, made func() ([]byte, error)) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err == nil {
		return bytes.TrimSpace(data), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading a key for NATS: %w", err)
	}
	seed, err := made()
	if err != nil {
		return nil, err
	}
	return seed, writeFile(path, append(bytes.Clone(seed), '\n'))
}
