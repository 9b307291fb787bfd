package conformance

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Vector is a case with Kubernetes' answer.
type Vector struct {
	Case   Case   `json:"case"`
	Answer Answer `json:"answer"`
}

// WriteVectors writes vectors as compressed lines of JSON.
func WriteVectors(w io.Writer, vectors []Vector) error {
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

// ReadVectors calls see with each vector that WriteVectors wrote.
func ReadVectors(r io.Reader, see func(*Vector)) error {
	packed, err := gzip.NewReader(r)
	if err != nil {
		return fmt.Errorf("decompressing vectors: %w", err)
	}
	lines := json.NewDecoder(packed)
	for {
		var v Vector
		switch err := lines.Decode(&v); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("reading a vector: %w", err)
		}
		see(&v)
	}
}
