package response

import (
	"net/http"
	"strconv"

	"github.com/klauspost/compress/gzip"
)

// body is the body of a response whose length is known at its end, or beforehand. It buffers up to
// gzipFrom bytes. Then it starts the response, compressed if the client accepts that.
type body struct {
	encoder     *Encoder
	w           http.ResponseWriter
	r           *http.Request
	code        int
	contentType string
	size        int64 // -1 if unknown

	held   []byte
	begun  bool
	zipper *gzip.Writer
}

func (e *Encoder) newBody(w http.ResponseWriter, r *http.Request, code int, contentType string, size int64) *body {
	b := &body{encoder: e, w: w, r: r, code: code, contentType: contentType, size: size}
	if held, ok := e.pages.Get().(*[]byte); ok {
		b.held = (*held)[:0]
	}
	return b
}

// Write adds data to the body.
func (b *body) Write(data []byte) (int, error) {
	if len(b.held)+len(data) < gzipFrom {
		b.held = append(b.held, data...)
		return len(data), nil
	}
	if !b.begun {
		b.begin(b.size < 0 || b.size >= gzipFrom)
	}
	if err := b.flush(); err != nil {
		return 0, err
	}
	if len(data) >= gzipFrom {
		return len(data), b.send(data)
	}
	b.held = append(b.held, data...)
	return len(data), nil
}

func (b *body) flush() error {
	err := b.send(b.held)
	b.held = b.held[:0]
	return err
}

func (b *body) send(data []byte) error {
	var err error
	switch {
	case b.r.Method == http.MethodHead:
	case b.zipper != nil:
		_, err = b.zipper.Write(data)
	default:
		_, err = b.w.Write(data)
	}
	return err
}

// begin sends the header. large reports that the body is worth compressing.
func (b *body) begin(large bool) {
	b.begun = true
	header := b.w.Header()
	header.Set("Content-Type", b.contentType)
	if header.Get("Cache-Control") == "" { // A handler may have been stricter.
		header.Set("Cache-Control", "no-cache, private")
	}
	header.Add("Vary", "Accept")
	switch {
	case large && acceptsGzip(b.r):
		header.Set("Content-Encoding", "gzip")
		header.Add("Vary", "Accept-Encoding")
		if zipper, ok := b.encoder.zippers.Get().(*gzip.Writer); ok && b.r.Method != http.MethodHead {
			b.zipper = zipper
			zipper.Reset(b.w)
		}
	case b.size >= 0:
		header.Set("Content-Length", strconv.FormatInt(b.size, 10))
	}
	b.w.WriteHeader(b.code)
}

// end sends the rest. Nothing may be written afterwards.
func (b *body) end() error {
	if !b.begun {
		if b.size < 0 {
			b.size = int64(len(b.held))
		}
		b.begin(false)
	}
	err := b.flush()
	if b.zipper != nil {
		if closeErr := b.zipper.Close(); err == nil {
			err = closeErr
		}
	}
	b.release()
	return err
}

// release returns the buffers to their pools.
func (b *body) release() {
	if b.zipper != nil {
		b.encoder.zippers.Put(b.zipper)
		b.zipper = nil
	}
	held := b.held[:0]
	b.held = nil
	b.encoder.pages.Put(&held)
}
