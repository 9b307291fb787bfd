// Package body reads the bodies of requests and answers, which may be hostile: too large, too deep, or shorter than
// announced.
package body

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/backoff"
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
	// deepRest is how long whoever sends JSON that is deeper waits for the answer. No program sends it by mistake, and it
	// costs its sender less than the others beside it.
	deepRest = 250 * time.Millisecond
)

// Read reads the body of a request, at most Most bytes, and nothing of one that announces more. It stops reading JSON
// that is nested deeper than any decoder allows, and returns what it has read, after a rest: that decodes with the same
// error as all of it.
func Read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > Most {
		return nil, tooLarge(Most)
	}
	var from io.Reader = http.MaxBytesReader(w, r.Body, Most)
	looked := &shallow{from: from}
	// What is shorter cannot be nested deeper.
	if (r.ContentLength < 0 || r.ContentLength > deepest) && isJSON(r.Header.Get("Content-Type")) {
		from = looked
	}
	data, err := read(from, r.ContentLength)
	if looked.ended {
		backoff.Sleep(r.Context(), deepRest)
	}
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, tooLarge(large.Limit)
	case err != nil && errors.Is(r.Context().Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("reading the body of the request: %w", context.DeadlineExceeded)
	case err != nil:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("reading the body of the request: %v", err))
	}
	return data, nil
}

func tooLarge(limit int64) error {
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", limit))
}

// read reads all of a body of an announced length, which is negative if unknown and need not be true.
func read(from io.Reader, length int64) ([]byte, error) {
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

// Shallow returns a reader of JSON that ends soon after the JSON is nested deeper than any decoder allows.
func Shallow(from io.Reader) io.Reader { return &shallow{from: from} }

type shallow struct {
	from            io.Reader
	open            int
	quoted, escaped bool
	ended           bool
}

// Read reads what comes next.
func (s *shallow) Read(into []byte) (int, error) {
	if s.ended {
		return 0, io.EOF
	}
	n, err := s.from.Read(into)
	s.ended = s.exceeded(into[:n])
	return n, err //nolint:wrapcheck // io.EOF must stay itself.
}

// exceeded reports whether the JSON is nested too deep once more of it was read.
func (s *shallow) exceeded(more []byte) bool {
	for _, b := range more {
		switch {
		case s.escaped:
			s.escaped = false
		case s.quoted && b == '\\':
			s.escaped = true
		case b == '"':
			s.quoted = !s.quoted
		case s.quoted:
		case b == '[', b == '{':
			if s.open++; s.open > deepest {
				return true
			}
		case b == ']', b == '}':
			s.open--
		}
	}
	return false
}
