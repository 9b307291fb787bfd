package reconcile

import (
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/informer"
)

// SplitKey splits a key into namespace and name: "namespace/name", or "name" for a cluster-wide
// object. It returns an error for a key that neither EnqueueObject nor EnqueueOwner can produce.
func SplitKey(key string) (namespace, name string, err error) {
	namespace, name, err = informer.SplitMetaNamespaceKey(key)
	if err != nil {
		return "", "", fmt.Errorf("splitting a key: %w", err)
	}
	if name == "" || (namespace == "" && strings.Contains(key, "/")) {
		return "", "", fmt.Errorf("splitting a key: %q has an empty part", key)
	}
	return namespace, name, nil
}

// EnqueueObject returns a handler that enqueues the object's key for each event that all predicates
// pass. It also enqueues the key for each deletion without a known state.
func EnqueueObject[T informer.Object](enqueue func(string), predicates ...Predicate[T]) informer.ResourceEventHandler[T] {
	return handler[T]{predicate: And(predicates...), keys: func(obj T) string { return informer.Key(obj) }, enqueue: enqueue, itself: true}
}

// EnqueueOwner returns a handler that enqueues the key of the object's controller, if the
// controller is of kind owner, in the object's namespace. For an update it uses both the old and
// the new state. Events that a predicate rejects are ignored.
func EnqueueOwner[T informer.Object](enqueue func(string), owner schema.GroupKind,
	predicates ...Predicate[T]) informer.ResourceEventHandler[T] {
	return handler[T]{predicate: And(predicates...), enqueue: enqueue, keys: func(obj T) string {
		ref := metav1.GetControllerOfNoCopy(obj)
		if ref == nil || ref.Kind != owner.Kind {
			return ""
		}
		gv, err := schema.ParseGroupVersion(ref.APIVersion)
		if err != nil || gv.Group != owner.Group {
			return ""
		}
		return informer.KeyOf(obj.GetNamespace(), ref.Name)
	}}
}

// ByPriority returns a handler for a controller with Config.Priority. It calls the argument handler
// twice, for a handler that enqueues keys and for one that enqueues them with
// workqueue.LowPriority. The latter gets events without a change: the objects of the initial list,
// and updates with equal resourceVersions (controller-runtime,
// handler.WithLowPriorityWhenUnchanged).
//
//	reconcile.ByPriority(controller, func(enqueue func(string)) informer.ResourceEventHandler[*corev1.Pod] {
//		return reconcile.EnqueueObject[*corev1.Pod](enqueue)
//	})
func ByPriority[K comparable, T informer.Object](c *Controller[K],
	handler func(enqueue func(K)) informer.ResourceEventHandler[T]) informer.ResourceEventHandler[T] {
	return byPriority[T]{ResourceEventHandler: handler(c.Enqueue), low: handler(c.EnqueueLow)}
}

type byPriority[T informer.Object] struct {
	informer.ResourceEventHandler[T]
	low informer.ResourceEventHandler[T]
}

func (h byPriority[T]) OnAdd(obj T, isInInitialList bool) {
	if isInInitialList {
		h.low.OnAdd(obj, isInInitialList)
		return
	}
	h.ResourceEventHandler.OnAdd(obj, isInInitialList)
}

func (h byPriority[T]) OnUpdate(oldObj, newObj T) {
	if !isNil(oldObj) && !isNil(newObj) && oldObj.GetResourceVersion() == newObj.GetResourceVersion() {
		h.low.OnUpdate(oldObj, newObj)
		return
	}
	h.ResourceEventHandler.OnUpdate(oldObj, newObj)
}

// handler enqueues a key for each event. Nil objects are dropped.
type handler[T informer.Object] struct {
	predicate Predicate[T]
	// keys returns the key to enqueue for an object; empty for none.
	keys    func(T) string
	enqueue func(string)
	// itself means that the key is the object's own.
	itself bool
}

func (h handler[T]) OnAdd(obj T, _ bool) {
	if !isNil(obj) && h.predicate.create(obj) {
		h.add(h.keys(obj))
	}
}

func (h handler[T]) OnUpdate(oldObj, newObj T) {
	if isNil(oldObj) || isNil(newObj) || !h.predicate.update(oldObj, newObj) {
		return
	}
	before, after := h.keys(oldObj), h.keys(newObj)
	h.add(after)
	if before != after {
		h.add(before)
	}
}

func (h handler[T]) OnDelete(obj informer.DeletedObject[T]) {
	switch {
	case isNil(obj.OptionalObj):
		if h.itself {
			h.add(obj.Key) // No predicate can judge it, and a deletion must not be missed.
		}
	case h.predicate.delete(obj):
		h.add(h.keys(obj.OptionalObj))
	}
}

func (h handler[T]) add(key string) {
	if key != "" {
		h.enqueue(key)
	}
}

func isNil[T informer.Object](obj T) bool {
	v := reflect.ValueOf(obj)
	return !v.IsValid() || (v.Kind() == reflect.Pointer && v.IsNil())
}
