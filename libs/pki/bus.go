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

// Names of the files with the keys for NATS.
const (
	BusIssuerFile = "nats-issuer.seed"
	BusUserFile   = "nats-apiserver.seed"
	// BusConfigFile configures nats-servers with the public halves.
	BusConfigFile = "nats-auth.conf"
)

// OpenBus reads the apiservers' keys for NATS from a directory, creates missing ones, and writes
// the configuration for nats-servers to include.
func OpenBus(files Files, dir string) (*callout.Keys, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the certificate directory: %w", err)
	}
	for name, made := range map[string]func() ([]byte, error){BusIssuerFile: callout.NewIssuer, BusUserFile: callout.NewUser} {
		if err := ensureSeed(files, filepath.Join(dir, name), made); err != nil {
			return nil, err
		}
	}
	keys, err := ReadBus(dir)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, BusConfigFile)
	have, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the configuration for NATS: %w", err)
	}
	if want := keys.Configuration(); !bytes.Equal(have, want) {
		return keys, files.Write(path, want, Public)
	}
	return keys, nil
}

// ReadBus reads the apiservers' keys for NATS from a directory and writes nothing. The error is
// fs.ErrNotExist if one is missing.
func ReadBus(dir string) (*callout.Keys, error) {
	issuerPath, userPath := filepath.Join(dir, BusIssuerFile), filepath.Join(dir, BusUserFile)
	issuer, err := readSeed(issuerPath)
	if err != nil {
		return nil, err
	}
	user, err := readSeed(userPath)
	if err != nil {
		return nil, err
	}
	keys, err := callout.ParseKeys(issuer, user)
	if err != nil {
		return nil, damaged(issuerPath+" or "+userPath, err, "NATS must then get the new "+BusConfigFile)
	}
	return keys, nil
}

func readSeed(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading a key for NATS: %w", err)
	}
	return bytes.TrimSpace(data), nil
}

// ensureSeed creates a key if there is none.
func ensureSeed(files Files, path string, made func() ([]byte, error)) error {
	_, err := os.Stat(path)
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading a key for NATS: %w", err)
	}
	seed, err := made()
	if err != nil {
		return err
	}
	return files.Write(path, append(bytes.Clone(seed), '\n'), Secret)
}
