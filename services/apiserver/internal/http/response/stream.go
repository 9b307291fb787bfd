package response

import (
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// squeezeFrom is the size in bytes from which what is flushed at once is compressed; less is only framed. A single event
// would cost more to compress than to send.
const squeezeFrom = 8 << 10

// Stream is the body of a response without an end, such as a watch. If it is compressed, each Flush ends a member of the
// gzip file, so that a stream at rest holds no compressor.
type Stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	encoder *Encoder
	zips    bool

	held   []byte
	zipper *gzip.Writer
}

// Stream begins a response with status 200, and flushes its header. It is compressed if squeeze is set and the client
// accepts that.
func (e *Encoder) Stream(w http.ResponseWriter, r *http.Request, contentType string, squeeze bool) *Stream {
	s := &Stream{w: w, control: http.NewResponseController(w), encoder: e, zips: squeeze && acceptsGzip(r)}
	header := w.Header()
	header.Set("Content-Type", contentType)
	header.Set("Cache-Control", "no-cache, private")
	if s.zips {
		header.Set("Content-Encoding", "gzip")
		header.Add("Vary", "Accept-Encoding")
	}
	w.WriteHeader(http.StatusOK)
	_ = s.control.Flush() // If the client is gone, the next write fails.
	return s
}

// Write adds data to the stream.
func (s *Stream) Write(data []byte) (int, error) {
	switch {
	case !s.zips:
		return s.w.Write(data)
	case s.zipper != nil:
		return s.zipper.Write(data)
	case len(s.held)+len(data) < squeezeFrom:
		s.held = append(s.held, data...)
		return len(data), nil
	}
	var err error
	if s.zipper, err = s.open(&s.encoder.zippers); err != nil {
		return 0, err
	}
	return s.zipper.Write(data)
}

// open begins a member with what is held.
func (s *Stream) open(pool *sync.Pool) (*gzip.Writer, error) {
	zipper, ok := pool.Get().(*gzip.Writer)
	if !ok {
		return nil, errors.New("no compressor for the response")
	}
	zipper.Reset(s.w)
	_, err := zipper.Write(s.held)
	s.held = s.held[:0]
	return zipper, err
}

// Flush sends what was written to the client.
func (s *Stream) Flush() error {
	if s.zips {
		if err := s.member(); err != nil {
			return err
		}
	}
	return s.control.Flush()
}

// member ends the member that was begun, if any.
func (s *Stream) member() error {
	pool, zipper := &s.encoder.zippers, s.zipper
	if zipper == nil {
		if len(s.held) == 0 {
			return nil
		}
		pool = &s.encoder.framers
		var err error
		if zipper, err = s.open(pool); err != nil {
			return err
		}
	}
	s.zipper = nil
	// A reader gets the data of a flush before it waits for the next member; those that come with the end of a member it
	// would get only then.
	if err := zipper.Flush(); err != nil {
		return err
	}
	if err := zipper.Close(); err != nil {
		return err
	}
	zipper.Reset(io.Discard)
	pool.Put(zipper)
	return nil
}
