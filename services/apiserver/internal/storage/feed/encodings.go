package feed

import (
	"errors"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Encodings are the encoded forms of one state of an object. Each form is encoded once, however
// many watchers want it, unless the feeds run out of room to keep it. Encodings is safe for
// concurrent use; a nil one keeps nothing.
type Encodings struct {
	cache *encodingCache

	mu    sync.Mutex
	forms map[any]*encoding
}

type encoding struct {
	once sync.Once
	data []byte
	err  error
}

var errNotEncoded = errors.New("encoding the object did not finish")

// Of returns a form of the object, calling encode if the form is not cached. form identifies it and
// must be comparable. The result is shared and must not be modified.
func (e *Encodings) Of(form any, encode func() ([]byte, error)) ([]byte, error) {
	if e == nil {
		return encode()
	}
	e.mu.Lock()
	found := e.forms[form]
	if found == nil {
		found = &encoding{}
		if e.forms == nil {
			e.forms = map[any]*encoding{}
		}
		e.forms[form] = found
	}
	e.mu.Unlock()
	found.once.Do(func() {
		e.cache.encoded.Inc()
		// If encode panics, waiting callers get an error, and later ones try again.
		found.err = errNotEncoded
		defer func() {
			if errors.Is(found.err, errNotEncoded) {
				e.forget(form)
			}
		}()
		found.data, found.err = encode()
		e.cache.add(placed{encodings: e, form: form, size: len(found.data)})
	})
	return found.data, found.err
}

func (e *Encodings) forget(form any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.forms, form)
}

// encodingCache bounds the bytes of all kept encodings: the oldest go first.
type encodingCache struct {
	room    int
	encoded prometheus.Counter

	mu     sync.Mutex
	used   int
	placed []placed
}

type placed struct {
	encodings *Encodings
	form      any
	size      int
}

// overhead is roughly what an encoding costs besides its bytes.
const overhead = 128

func (s *encodingCache) add(p placed) {
	p.size += overhead
	s.mu.Lock()
	s.used += p.size
	s.placed = append(s.placed, p)
	drop := 0
	for s.used > s.room && drop < len(s.placed) {
		s.used -= s.placed[drop].size
		drop++
	}
	dropped := s.placed[:drop:drop]
	s.placed = s.placed[drop:]
	s.mu.Unlock()
	for i, old := range dropped {
		old.encodings.forget(old.form)
		dropped[i] = placed{}
	}
}
