// Package encoded keeps what objects look like on the wire, so that each form is encoded once for
// all its readers.
package encoded

import (
	"errors"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Forms are the encoded forms of one state of an object. Each form is encoded once, however many
// watchers want it, unless the cache runs out of room to keep it. Forms is safe for concurrent use;
// a nil one keeps nothing.
type Forms struct {
	cache *Cache

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
func (f *Forms) Of(form any, encode func() ([]byte, error)) ([]byte, error) {
	if f == nil {
		return encode()
	}
	f.mu.Lock()
	found := f.forms[form]
	if found == nil {
		found = &encoding{}
		if f.forms == nil {
			f.forms = map[any]*encoding{}
		}
		f.forms[form] = found
	}
	f.mu.Unlock()
	found.once.Do(func() {
		f.cache.encoded.Inc()
		// If encode panics, waiting callers get an error, and later ones try again.
		found.err = errNotEncoded
		defer func() {
			if errors.Is(found.err, errNotEncoded) {
				f.forget(form)
			}
		}()
		found.data, found.err = encode()
		f.cache.add(placed{forms: f, form: form, size: len(found.data)})
	})
	return found.data, found.err
}

func (f *Forms) forget(form any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.forms, form)
}

// Cache bounds the bytes of the forms of many objects: the oldest go first. It is safe for
// concurrent use.
type Cache struct {
	room    int
	encoded prometheus.Counter

	mu     sync.Mutex
	used   int
	placed []placed
}

type placed struct {
	forms *Forms
	form  any
	size  int
}

// NewCache returns a cache that keeps up to room bytes and counts in encoded how often it encodes.
func NewCache(room int, encoded prometheus.Counter) *Cache {
	return &Cache{room: room, encoded: encoded}
}

// Forms returns the forms, none of them encoded yet, of a state of an object.
func (c *Cache) Forms() *Forms { return &Forms{cache: c} }

// Another returns the forms of another object in the same cache.
func (f *Forms) Another() *Forms { return f.cache.Forms() }

// overhead is roughly what an encoding costs besides its bytes.
const overhead = 128

func (c *Cache) add(p placed) {
	p.size += overhead
	c.mu.Lock()
	c.used += p.size
	c.placed = append(c.placed, p)
	drop := 0
	for c.used > c.room && drop < len(c.placed) {
		c.used -= c.placed[drop].size
		drop++
	}
	dropped := c.placed[:drop:drop]
	c.placed = c.placed[drop:]
	c.mu.Unlock()
	for i, old := range dropped {
		old.forms.forget(old.form)
		dropped[i] = placed{}
	}
}
