package pki

import (
	"crypto/rand"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/garboard/garboard/libs/pki"
)

// nodePrefix begins the user names of node agents.
const nodePrefix = "system:node:"

// services returns the users that always have a token.
func services() []string { return []string{"system:kube-controller-manager", "system:kube-scheduler"} }

// ensureTokens creates the token file if it is missing.
func ensureTokens(path string) error {
	_, err := os.Stat(path)
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the services' tokens: %w", err)
	}
	var text strings.Builder
	for _, service := range services() {
		line, err := tokenLine(service, newToken())
		if err != nil {
			return err
		}
		text.WriteString(line)
	}
	return pki.Files{}.Write(path, []byte(text.String()), pki.Secret)
}

// Token returns the bearer token of a service. It adds one to the file for a node agent
// ("system:node:NAME") that has none.
func Token(dir, service string) (string, error) {
	path := filepath.Join(dir, TokenFile)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return "", fmt.Errorf("reading the services' tokens, which the apiserver creates when it first starts: %w", err)
	}
	defer func() { _ = file.Close() }()
	reader := csv.NewReader(file)
	reader.FieldsPerRecord = -1
	records, err := reader.ReadAll()
	if err != nil {
		return "", fmt.Errorf("%s is damaged (%w); restore it from a backup, or remove it: services then get new tokens", path, err)
	}
	for _, record := range records {
		if len(record) >= 2 && record[1] == service && record[0] != "" {
			return record[0], nil
		}
	}
	if name, ok := strings.CutPrefix(service, nodePrefix); !ok || name == "" {
		return "", fmt.Errorf("%s has no token in %s", service, path)
	}
	token := newToken()
	line, err := tokenLine(service, token)
	if err != nil {
		return "", err
	}
	// One write in append mode: concurrent processes don't mix their lines.
	if _, err := file.WriteString(line); err != nil {
		return "", fmt.Errorf("adding a token for %s to %s: %w", service, path, err)
	}
	return token, nil
}

func newToken() string {
	secret := make([]byte, 24)
	_, _ = rand.Read(secret) // crypto/rand.Read never fails.
	return hex.EncodeToString(secret)
}

// tokenLine returns a line of the file: token, user, uid, groups.
func tokenLine(service, token string) (string, error) {
	record := []string{token, service, service}
	if strings.HasPrefix(service, nodePrefix) {
		record = append(record, "system:nodes")
	}
	var line strings.Builder
	writer := csv.NewWriter(&line)
	if err := writer.Write(record); err != nil {
		return "", fmt.Errorf("encoding the token of %s: %w", service, err)
	}
	writer.Flush()
	return line.String(), nil
}
