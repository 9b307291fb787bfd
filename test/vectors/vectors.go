// Package vectors stores conformance vectors in files: cases with Kubernetes' answers, which the oracles
// below test/upstream write and the tests of the services replay.
package vectors

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Write writes vectors as compressed lines of JSON. The same vectors give the same bytes.
func Write[V any](w io.Writer, vectors []V) error {
	packed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return fmt.Errorf("compressing vectors: %w", err)
	}
	lines := json.NewEncoder(packed)
	for i := range vectors {
		if err := lines.Encode(&vectors[i]); err != nil {
			return fmt.Errorf("writing a vector: %w", err)
		}
	}
	if err := packed.Close(); err != nil {
		return fmt.Errorf("compressing vectors: %w", err)
	}
	return nil
}

// Read calls see with each vector that Write wrote, until see returns an error.
func Read[V any](r io.Reader, see func(V) error) error {
	packed, err := gzip.NewReader(r)
	if err != nil {
		return fmt.Errorf("decompressing vectors: %w", err)
	}
	lines := json.NewDecoder(packed)
	for {
		var v V
		switch err := lines.Decode(&v); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("reading a vector: %w", err)
		}
		if err := see(v); err != nil {
			return err
		}
	}
}
