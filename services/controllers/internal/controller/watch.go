package controller

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/contention"
)

// Watch is something that a controller reads, and whose changes may ask for reconciles: what For,
// OwnedBy, On and Reads return.
type Watch interface {
	// begin adds the handler, if there is one, for one term.
	begin(h *handlers, q Queue) error
}

// Main are the objects that a controller is for: what For returns.
type Main interface {
	Watch
	// find returns an object by its key.
	find(key string) (metav1.Object, bool)
}

// Objects are the objects that a controller is for. A change of one asks for its reconcile.
type Objects[T scheme.Object] struct {
	informer.SharedInformer[T]
	// Client writes them.
	Client client.Resource[T]
	// Wanted, unless nil, reports whether an object is one of those that the controller is for.
	Wanted func(obj T) bool
	// Changed, unless nil, reports whether an update asks for a reconcile.
	Changed func(old, now T) bool
	// Handle, unless nil, is called for each change in place of asking for a reconcile. Old is nil for an
	// object that is new, now for one that is gone.
	Handle func(q Queue, old, now T)
	// Delay, unless nil, returns after what time an update asks for a reconcile, so that one follows
	// several.
	Delay func(old, now T) time.Duration
}

// For returns the objects of a kind, and requests their informer.
func For[T scheme.Object](d Deps) *Objects[T] {
	o := &Objects[T]{SharedInformer: informer.For[T](d.Informers), Client: client.Of[T](d.Client)}
	d.Roots.know(o.Client.Kind().GroupKind(), o.find)
	return o
}

// ForView is For of those objects that a view holds. Nothing finds its root through them.
func ForView[T scheme.Object](d Deps, view informer.View) *Objects[T] {
	return &Objects[T]{SharedInformer: informer.ForView[T](d.Informers, view), Client: client.Of[T](d.Client)}
}

// Get returns the object that a key names.
func (o *Objects[T]) Get(key Key) (obj T, found bool) { return o.Indexer().GetByKey(key.String()) }

// In returns the objects of a namespace; all of them if it is empty.
func (o *Objects[T]) In(namespace string) []T {
	if namespace == "" {
		return o.Indexer().List()
	}
	return inNamespace(o.Indexer(), namespace)
}

func inNamespace[T scheme.Object](indexer informer.Indexer[T], namespace string) []T {
	objs, err := indexer.ByIndex(informer.NamespaceIndex, namespace)
	if err != nil {
		return nil // Every store has this index.
	}
	return objs
}

func (o *Objects[T]) find(key string) (metav1.Object, bool) { return o.Indexer().GetByKey(key) }

func (o *Objects[T]) begin(h *handlers, q Queue) error {
	return handle(h, o.SharedInformer, q, func(q Queue, old, now T, gone informer.DeletedObject[T]) {
		switch {
		case o.Handle != nil:
			o.handle(q, old, now)
		case isNil(now):
			if isNil(old) || o.Wanted == nil || o.Wanted(old) {
				q.gone(gone.GetObjectName())
			}
		case o.Wanted != nil && !o.Wanted(now):
		case isNil(old):
			q.Add(now)
		case o.Changed == nil || o.Changed(old, now):
			var delay time.Duration
			if o.Delay != nil {
				delay = o.Delay(old, now)
			}
			q.AddAfter(now, delay)
		}
	})
}

func (o *Objects[T]) handle(q Queue, old, now T) {
	if !isNil(old) || !isNil(now) {
		o.Handle(q, old, now)
	}
	if isNil(now) && !isNil(old) {
		q.forget(old)
	}
}

// On returns a watch that calls f for each change of an informer's objects. Old is nil for an object that
// is new, now for one that is gone; f is not called for one that is gone in an unknown state.
func On[T scheme.Object](of informer.SharedInformer[T], f func(q Queue, old, now T)) Watch {
	return on[T]{of, f}
}

type on[T scheme.Object] struct {
	informer informer.SharedInformer[T]
	f        func(q Queue, old, now T)
}

func (o on[T]) begin(h *handlers, q Queue) error {
	return handle(h, o.informer, q, func(q Queue, old, now T, _ informer.DeletedObject[T]) {
		if !isNil(old) || !isNil(now) {
			o.f(q, old, now)
		}
	})
}

// Reads returns a watch of an informer that the controller only reads.
func Reads[T scheme.Object](of informer.SharedInformer[T]) Watch { return reads[T]{of} }

type reads[T scheme.Object] struct{ informer informer.SharedInformer[T] }

func (r reads[T]) begin(h *handlers, _ Queue) error {
	need(h, r.informer)
	return nil
}

// Indexed returns a watch of an informer that the controller only reads, through an index. Controllers
// that use the same name share the index.
func Indexed[T scheme.Object](of informer.SharedInformer[T], name string, values informer.IndexFunc[T]) Watch {
	return indexed[T]{reads[T]{of}, name, values}
}

type indexed[T scheme.Object] struct {
	reads[T]
	name   string
	values informer.IndexFunc[T]
}

func (i indexed[T]) begin(h *handlers, q Queue) error {
	if err := shareIndex(i.informer, i.name, i.values); err != nil {
		return err
	}
	return i.reads.begin(h, q)
}

// handlers are the event handlers of one term, and the informers that the controller reads.
type handlers struct {
	// priority means that events without a change give way to others.
	priority bool
	reads    reconcile.Caches
	checkers []informer.DoneChecker
	remove   []func() error
	// contention learns which of the controller's creations are lost.
	contention *contention.Keys[Key]
}

// need makes the term wait for an informer's sync, and for the controller's own writes in it.
func need[T scheme.Object](h *handlers, i informer.SharedInformer[T]) {
	h.checkers = append(h.checkers, i.HasSyncedChecker())
	reconcile.Reads(&h.reads, i)
}

// change is called for each event: old is nil for an object that is new; now is nil for one that is gone,
// and old too if its last state is unknown.
type change[T scheme.Object] func(q Queue, old, now T, gone informer.DeletedObject[T])

// handle adds a handler for one term.
func handle[T scheme.Object](h *handlers, i informer.SharedInformer[T], q Queue, f change[T]) error {
	registration, err := i.AddEventHandler(handler[T]{f: f, q: q, priority: h.priority, contention: h.contention})
	if err != nil {
		return fmt.Errorf("adding an event handler: %w", err)
	}
	need(h, i)
	h.checkers = append(h.checkers, registration.HasSyncedChecker())
	h.remove = append(h.remove, func() error { return i.RemoveEventHandler(registration) })
	return nil
}

// handler turns events into changes.
type handler[T scheme.Object] struct {
	f        change[T]
	q        Queue
	priority bool

	contention *contention.Keys[Key]
}

// OnAdd reports an object that is new to the handler.
func (h handler[T]) OnAdd(obj T, isInInitialList bool) {
	var none T
	h.f(h.queue(isInInitialList), none, obj, informer.DeletedObject[T]{})
}

// OnUpdate reports a change.
func (h handler[T]) OnUpdate(old, now T) {
	if failed(now) && !failed(old) {
		h.contention.Lost(reflect.TypeFor[T](), now.GetNamespace(), now.GetName())
	}
	h.f(h.queue(old.GetResourceVersion() == now.GetResourceVersion()), old, now, informer.DeletedObject[T]{})
}

// OnDelete reports an object that is gone.
func (h handler[T]) OnDelete(gone informer.DeletedObject[T]) {
	// That something finished is removed, for example by a controller that cleans up, undoes nothing.
	if !finished(gone.OptionalObj) {
		namespace, name := gone.GetObjectName()
		h.contention.Lost(reflect.TypeFor[T](), namespace, name)
	}
	var none T
	h.f(h.q, gone.OptionalObj, none, gone)
}

// failed reports whether an object is a pod that has failed.
func failed[T scheme.Object](obj T) bool {
	pod, ok := any(obj).(*corev1.Pod)
	return ok && pod.Status.Phase == corev1.PodFailed
}

// finished reports whether an object is a pod that has succeeded, or a Job that has ended.
func finished(obj any) bool {
	switch obj := obj.(type) {
	case *corev1.Pod:
		return obj != nil && obj.Status.Phase == corev1.PodSucceeded
	case *batchv1.Job:
		return obj != nil && slices.ContainsFunc(obj.Status.Conditions, func(c batchv1.JobCondition) bool {
			return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
		})
	}
	return false
}

func (h handler[T]) queue(unchanged bool) Queue {
	if unchanged && h.priority {
		return h.q.Low()
	}
	return h.q
}

func isNil[T scheme.Object](obj T) bool {
	v := reflect.ValueOf(obj)
	return !v.IsValid() || v.IsNil()
}
