package conformance

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// WriteVectors writes vectors as compressed lines of JSON. The same vectors give the same bytes.
func WriteVectors(w io.Writer, vectors []Vector) error {
	packed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return fmt.Errorf("compressing vectors: %w", err)
	}
	lines := json.NewEncoder(packed)
	for _, v := range vectors {
		if err := lines.Encode(v); err != nil {
			return fmt.Errorf("writing a vector: %w", err)
		}
	}
	if err := packed.Close(); err != nil {
		return fmt.Errorf("compressing vectors: %w", err)
	}
	return nil
}

// ReadVectors returns the vectors that WriteVectors wrote.
func ReadVectors(r io.Reader) ([]Vector, error) {
	packed, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("decompressing vectors: %w", err)
	}
	lines := json.NewDecoder(packed)
	var vectors []Vector
	for {
		var v Vector
		switch err := lines.Decode(&v); {
		case errors.Is(err, io.EOF):
			return vectors, nil
		case err != nil:
			return nil, fmt.Errorf("reading a vector: %w", err)
		}
		vectors = append(vectors, v)
	}
}
