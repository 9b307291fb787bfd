package protocol

import "sync"

// Buffers is a pool of message buffers.
type Buffers struct{ pool sync.Pool }

// Get returns a buffer with arbitrary content, which Put gives back.
func (b *Buffers) Get() *[]byte {
	if buffer, ok := b.pool.Get().(*[]byte); ok {
		return buffer
	}
	return new([]byte)
}

// Put gives a buffer back.
func (b *Buffers) Put(buffer *[]byte) { b.pool.Put(buffer) }

// Grown returns a slice of the given length with arbitrary content.
func Grown(data []byte, length int) []byte {
	if cap(data) < length {
		return make([]byte, length)
	}
	return data[:length]
}
