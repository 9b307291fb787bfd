// Package body reads the bodies of requests, which may be hostile: too large, too deep, or shorter than announced.
package body

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	// Most bounds a body in bytes: Kubernetes' 3 MB.
	Most = 3 << 20
	// trusted is how many bytes a client must have sent before the length that it announced is allocated.
	trusted = 64 << 10
	// least is the smallest buffer.
	least = 512
	// deepest is how deep JSON may be nested: encoding/json and sigs.k8s.io/json refuse what is deeper.
	deepest = 10_000
)

// Read reads the body of a request, at most Most bytes. It stops reading JSON that is nested deeper than any decoder
// allows, and returns what it has read: that decodes with the same error as all of it.
func Read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	var nesting *depth
	if isJSON(r.Header.Get("Content-Type")) {
		nesting = &depth{}
	}
	data, err := read(http.MaxBytesReader(w, r.Body, Most), r.ContentLength, nesting)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", large.Limit))
	case err != nil && errors.Is(r.Context().Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("reading the body of the request: %w", context.DeadlineExceeded)
	case err != nil:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("reading the body of the request: %v", err))
	}
	return data, nil
}

// read reads all of a body of an announced length, which is negative if unknown and need not be true.
func read(from io.Reader, length int64, nesting *depth) ([]byte, error) {
	data := make([]byte, 0, max(least, min(length+1, trusted)))
	for {
		if len(data) == cap(data) {
			size := int64(2 * cap(data))
			if length > int64(len(data)) {
				size = min(length, Most) + 1 // One more, in which the end is found.
			}
			grown := make([]byte, len(data), size)
			copy(grown, data)
			data = grown
		}
		n, err := from.Read(data[len(data):cap(data)])
		if nesting != nil && nesting.exceeded(data[len(data):len(data)+n]) {
			return data[:len(data)+n], nil
		}
		data = data[:len(data)+n]
		if errors.Is(err, io.EOF) {
			return data, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// isJSON reports whether a content type is JSON, which is also what a request without one sends.
func isJSON(contentType string) bool {
	if contentType == "" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == runtime.ContentTypeJSON || strings.HasSuffix(media, "+json"))
}

// depth counts how deep JSON is nested.
type depth struct {
	open            int
	quoted, escaped bool
}

// exceeded reports whether the JSON is nested too deep once more of it was read.
func (d *depth) exceeded(more []byte) bool {
	for _, b := range more {
		switch {
		case d.escaped:
			d.escaped = false
		case d.quoted && b == '\\':
			d.escaped = true
		case b == '"':
			d.quoted = !d.quoted
		case d.quoted:
		case b == '[', b == '{':
			if d.open++; d.open > deepest {
				return true
			}
		case b == ']', b == '}':
			d.open--
		}
	}
	return false
}
