package reconcile

import (
	"context"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer"
)

// Caches are the informers that a controller reads. After the controller has written for a key, the
// key is not reconciled again until the caches of the written kinds are as new as the write. The
// zero value holds no caches, and may be used from any goroutine.
type Caches struct {
	mu     sync.Mutex
	byType map[reflect.Type][]cache
}

// cache is an informer without its type.
type cache interface {
	Revision() int64
	WaitForRevision(ctx context.Context, revision int64) error
}

// Reads adds an informer to caches.
func Reads[T informer.Object](caches *Caches, from informer.SharedInformer[T]) {
	caches.mu.Lock()
	defer caches.mu.Unlock()
	if caches.byType == nil {
		caches.byType = map[reflect.Type][]cache{}
	}
	of := reflect.TypeFor[T]()
	caches.byType[of] = append(caches.byType[of], from)
}

// behind returns a cache of a type that is not at a revision yet; nil if all are.
func (c *Caches) behind(of reflect.Type, revision int64) cache {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, each := range c.byType[of] {
		if each.Revision() < revision {
			return each
		}
	}
	return nil
}

// Recording returns a client for the writes of a controller. It records the revision of each
// successful write for the key whose reconcile made it, found by the context that the Func got. It
// chooses generated names itself: if the outcome of a creation is unknown, the next one for the key
// has the same name, so that no object is created twice. With any other context it behaves like c.
func Recording(c client.Interface) client.Interface { return recording{c} }

type recording struct{ client.Interface }

// Do makes a call, and records the revision of a write.
func (r recording) Do(ctx context.Context, call client.Call, into runtime.Object) error {
	written, _ := ctx.Value(writtenKey{}).(*written)
	switch call.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
	default:
		written = nil
	}
	if written == nil {
		return r.Interface.Do(ctx, call, into)
	}
	if call.Revision == nil {
		call.Revision = new(int64)
	}
	var err error
	if call.Verb == "create" {
		err = r.create(ctx, call, into, written)
	} else {
		err = r.Interface.Do(ctx, call, into)
	}
	if err == nil {
		written.note(reflect.TypeOf(call.Kind.New()), *call.Revision)
	}
	return err
}

type writtenKey struct{}

// written is what was written for one key: the highest revision by type, and the creations whose
// outcome is unknown.
type written struct {
	mu     sync.Mutex
	byType map[reflect.Type]int64
	last   time.Time
	doubts []creation
}

func (w *written) note(of reflect.Type, revision int64) {
	if revision <= 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byType == nil {
		w.byType = map[reflect.Type]int64{}
	}
	w.byType[of] = max(w.byType[of], revision)
	w.last = time.Now()
}

// age returns how long ago the last write was.
func (w *written) age() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.last)
}

// behind returns a cache that does not show all of the writes yet, with the revision it must reach;
// nil if all do.
func (w *written) behind(caches *Caches) (on cache, revision int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for of, revision := range w.byType {
		if on := caches.behind(of, revision); on != nil {
			return on, revision
		}
	}
	return nil, 0
}

// seen reports whether all caches show all of the writes, and none is in doubt.
func (w *written) seen(caches *Caches) bool {
	on, _ := w.behind(caches)
	return on == nil && !w.doubtful()
}

// writes is what one controller wrote, by key, until its caches show it.
type writes[K comparable] struct {
	caches *Caches

	mu    sync.Mutex
	keys  map[K]*written
	sweep int // the number of keys above which useless ones are removed
}

const minimumSweep = 1024

// begin returns the context for a reconcile of key, and the record of its writes.
func (w *writes[K]) begin(ctx context.Context, key K) (context.Context, *written) {
	if w.caches == nil {
		return ctx, nil
	}
	record := &written{}
	if earlier := w.get(key); earlier != nil {
		record.doubts, record.last = earlier.take()
		w.forget(key, earlier)
	}
	return context.WithValue(ctx, writtenKey{}, record), record
}

// keep stores what a reconcile of key has written.
func (w *writes[K]) keep(key K, record *written) {
	if record == nil || record.seen(w.caches) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.keys == nil {
		w.keys = map[K]*written{}
	}
	w.keys[key] = record
	if len(w.keys) <= max(w.sweep, minimumSweep) {
		return
	}
	for other, record := range w.keys {
		if record.age() > expectationTimeout || record.seen(w.caches) {
			delete(w.keys, other)
		}
	}
	w.sweep = 2 * len(w.keys)
}

// get returns what was written for key; nil if nothing was, or if the record is no longer needed.
func (w *writes[K]) get(key K) *written {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.keys[key]
}

// forget drops what was written for key, unless another reconcile has written since or a creation is
// in doubt.
func (w *writes[K]) forget(key K, record *written) {
	if record.doubtful() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.keys[key] == record {
		delete(w.keys, key)
	}
}
