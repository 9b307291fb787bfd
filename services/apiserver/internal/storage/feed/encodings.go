package feed

import (
	"errors"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Encodings are the forms in which one state of an object is sent. Each form is encoded once,
// however many watchers want it, as long as the feeds have room to keep it. It may be used from
// any goroutine; a nil one keeps nothing.
type Encodings struct {
	shelf *shelf

	mu    sync.Mutex
	forms map[any]*encoding
}

type encoding struct {
	once sync.Once
	data []byte
	err  error
}

var errNotEncoded = errors.New("encoding the object did not come to an end")

// Of gives a form of the object, calling encode if it is not kept. form names it, by a value
// that can be compared. What is given is shared and must not be changed.
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
		e.shelf.encoded.Inc()
		// Who waits is told if encode panics, and who comes later tries again.
		found.err = errNotEncoded
		defer func() {
			if errors.Is(found.err, errNotEncoded) {
				e.forget(form)
			}
		}()
		found.data, found.err = encode()
		e.shelf.add(placed{encodings: e, form: form, size: len(found.data)})
	})
	return found.data, found.err
}

func (e *Encodings) forget(form any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.forms, form)
}

// shelf bounds the bytes of all encodings that are kept: the oldest go first.
type shelf struct {
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

// overhead is about what an encoding costs beside its bytes.
const overhead = 128

func (s *shelf) add(p placed) {
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
