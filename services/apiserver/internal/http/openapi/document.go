package openapi

import (
	"bytes"
	"crypto/sha512"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
)

// document is a document that is built when it is first requested. It keeps only compressed
// encodings: what the library builds them from takes about fifty times as much memory.
type document struct {
	// of are the kinds that the document describes; nil for a document of all.
	of []subject
	// build returns the document as JSON; nil when it is built.
	build func() ([]byte, error)
	// convert returns the protobuf encoding of the JSON; nil if there is only JSON.
	convert func(json []byte) ([]byte, error)

	mu       sync.Mutex
	etag     string
	modified time.Time
	json     *encoding // nil until it is built
	protobuf *encoding // nil until it is requested
}

// encoding is a compressed encoding of a document.
type encoding struct {
	compressed []byte
	size       int // without compression
}

// version returns the ETag of both encodings, and when the document was built.
func (d *document) version() (etag string, modified time.Time, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	err = d.buildLocked()
	return d.etag, d.modified, err
}

// encoded returns the document as JSON or as protobuf.
func (d *document) encoded(protobuf bool) (*encoding, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.buildLocked(); err != nil {
		return nil, err
	}
	if !protobuf {
		return d.json, nil
	}
	if d.protobuf != nil {
		return d.protobuf, nil
	}
	json, err := d.json.plain()
	if err != nil {
		return nil, err
	}
	data, err := d.convert(json)
	if err != nil {
		return nil, fmt.Errorf("encoding an OpenAPI document as protobuf: %w", err)
	}
	zipper, err := newZipper()
	if err != nil {
		return nil, err
	}
	d.protobuf, err = compress(zipper, data)
	return d.protobuf, err
}

func (d *document) buildLocked() error {
	if d.json != nil {
		return nil
	}
	data, err := d.build()
	if err != nil {
		return err
	}
	zipper, err := newZipper()
	if err != nil {
		return err
	}
	if d.json, err = compress(zipper, data); err != nil {
		return err
	}
	// The hash that Kubernetes uses.
	d.etag, d.modified = fmt.Sprintf("%X", sha512.Sum512(data)), time.Now()
	d.build = nil
	return nil
}

func newZipper() (*gzip.Writer, error) {
	zipper, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		return nil, fmt.Errorf("preparing to compress an OpenAPI document: %w", err)
	}
	return zipper, nil
}

func compress(zipper *gzip.Writer, data []byte) (*encoding, error) {
	var compressed bytes.Buffer
	zipper.Reset(&compressed)
	_, err := zipper.Write(data)
	if err == nil {
		err = zipper.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("compressing an OpenAPI document: %w", err)
	}
	return &encoding{compressed: bytes.Clone(compressed.Bytes()), size: len(data)}, nil
}

// plain returns the encoding without its compression.
func (e *encoding) plain() ([]byte, error) {
	data := make([]byte, e.size)
	return data, e.unpack(&gzip.Reader{}, data)
}

// unpack decompresses the encoding into data, which has its size.
func (e *encoding) unpack(unzipper *gzip.Reader, data []byte) error {
	err := unzipper.Reset(bytes.NewReader(e.compressed))
	if err == nil {
		_, err = io.ReadFull(unzipper, data)
	}
	if err != nil {
		return fmt.Errorf("decompressing an OpenAPI document: %w", err)
	}
	return nil
}
