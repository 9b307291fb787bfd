package controller

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/workqueue"
)

// Queue receives the keys of one term of a controller.
type Queue struct {
	*term
	priority int
}

// term is what the queues of different priorities share.
type term struct {
	enqueue func(Key, workqueue.AddOpts)
	roots   *Roots
	// find returns an object of the controller's kind.
	find func(key string) (metav1.Object, bool)

	mu sync.Mutex
	// keys are those of living objects.
	keys map[string]rooted
}

type rooted struct{ uid, root types.UID }

// Add asks for a reconcile of an object.
func (q Queue) Add(obj metav1.Object) { q.AddAfter(obj, 0) }

// AddAfter asks for a reconcile of an object after a time.
func (q Queue) AddAfter(obj metav1.Object, after time.Duration) {
	q.enqueue(q.key(obj), workqueue.AddOpts{After: after, Priority: q.priority})
}

// AddName asks for a reconcile of the object with a namespace, which may be empty, and a name. It need
// not exist.
func (q Queue) AddName(namespace, name string) {
	key := informer.KeyOf(namespace, name)
	if obj, found := q.find(key); found {
		q.Add(obj)
		return
	}
	q.mu.Lock()
	root := q.keys[key].root
	q.mu.Unlock()
	q.enqueue(Key{Namespace: namespace, Name: name, Root: root}, workqueue.AddOpts{Priority: q.priority})
}

// AddKey asks for a reconcile by a key that is not made from an object: those of a controller must all be
// made in one way.
func (q Queue) AddKey(key Key) { q.enqueue(key, workqueue.AddOpts{Priority: q.priority}) }

// gone asks for a reconcile of an object that no longer exists.
func (q Queue) gone(namespace, name string) {
	key := informer.KeyOf(namespace, name)
	q.mu.Lock()
	root := q.keys[key].root
	delete(q.keys, key)
	q.mu.Unlock()
	q.enqueue(Key{Namespace: namespace, Name: name, Root: root}, workqueue.AddOpts{Priority: q.priority})
}

// forget drops what is known of an object that no longer exists.
func (q Queue) forget(obj metav1.Object) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.keys, informer.KeyOf(obj.GetNamespace(), obj.GetName()))
}

// Low returns the queue for keys that give way to others. Handlers get it for events without a change.
func (q Queue) Low() Queue {
	q.priority = workqueue.LowPriority
	return q
}

// Normal returns the queue for keys that do not give way.
func (q Queue) Normal() Queue {
	q.priority = 0
	return q
}

// key returns the key of an object. Its root stays the same even if the object is adopted: two keys for
// one object could be with two workers.
func (q Queue) key(obj metav1.Object) Key {
	name := informer.KeyOf(obj.GetNamespace(), obj.GetName())
	q.mu.Lock()
	defer q.mu.Unlock()
	known, ok := q.keys[name]
	if !ok || known.uid != obj.GetUID() {
		known = rooted{uid: obj.GetUID(), root: q.roots.of(obj)}
		q.keys[name] = known
	}
	return Key{Namespace: obj.GetNamespace(), Name: obj.GetName(), Root: known.root}
}
