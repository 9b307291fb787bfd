package reconcile

import (
	"sync"
	"time"
)

// busyDelay is how long a key waits while another worker has its object under another key.
const busyDelay = 10 * time.Millisecond

// busy are the objects that workers have at present. The queue sees to it that no key is with two
// workers, but an object may have several keys.
type busy[K comparable] struct {
	mu      sync.Mutex
	objects map[K]struct{}
}

// enter reports whether no other worker has an object, and then gives it to the caller.
func (b *busy[K]) enter(object K) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, taken := b.objects[object]; taken {
		return false
	}
	if b.objects == nil {
		b.objects = map[K]struct{}{}
	}
	b.objects[object] = struct{}{}
	return true
}

func (b *busy[K]) leave(object K) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.objects, object)
}

// object returns what stands for all keys of an object.
func (c *Controller[K]) object(key K) K {
	if c.cfg.Object == nil {
		return key
	}
	return c.cfg.Object(key)
}
