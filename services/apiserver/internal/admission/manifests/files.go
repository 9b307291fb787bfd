package manifests

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/yaml"
)

// serverLabel is the label of metrics with the hash of the apiserver's identity.
const serverLabel = "apiserver_id_hash"

// document is one document of a file.
type document struct {
	file string
	data []byte
}

// readFiles returns the documents of all YAML and JSON files of a folder, and a hash of their contents,
// which is empty if there is none.
func readFiles(dir string) ([]document, string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, "", fmt.Errorf("failed to read manifest directory %q: %w", dir, err)
	}
	var found []document
	sum, some := sha256.New(), false
	for _, entry := range entries {
		if entry.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(entry.Name()))) {
			continue
		}
		file := filepath.Join(dir, entry.Name())
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, "", fmt.Errorf("failed to read file %q: %w", file, err)
		}
		if len(data) == 0 {
			continue
		}
		some = true
		sum.Write(data)
		sum.Write([]byte{0})
		documents, err := split(data)
		if err != nil {
			return nil, "", fmt.Errorf("failed to split YAML documents in file %q: %w", file, err)
		}
		for _, data := range documents {
			found = append(found, document{file, data})
		}
	}
	if !some {
		return nil, "", nil
	}
	return found, fmt.Sprintf("sha256:%x", sum.Sum(nil)), nil
}

// split returns the documents of a file that are not empty.
func split(data []byte) ([][]byte, error) {
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	var found [][]byte
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err //nolint:wrapcheck // The caller names the file.
		}
		if document = bytes.TrimSpace(document); len(document) > 0 {
			found = append(found, document)
		}
	}
}
