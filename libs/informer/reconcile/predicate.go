package reconcile

import (
	"maps"
	"slices"

	"github.com/garboard/garboard/libs/informer"
)

// Predicate selects the events that are worth a reconcile. A nil function passes every event
// (controller-runtime, pkg/predicate.Funcs).
type Predicate[T informer.Object] struct {
	Create func(obj T) bool
	Update func(oldObj, newObj T) bool
	Delete func(obj informer.DeletedObject[T]) bool
}

func (p Predicate[T]) create(obj T) bool { return p.Create == nil || p.Create(obj) }

func (p Predicate[T]) update(oldObj, newObj T) bool {
	return p.Update == nil || p.Update(oldObj, newObj)
}

func (p Predicate[T]) delete(obj informer.DeletedObject[T]) bool {
	return p.Delete == nil || p.Delete(obj)
}

// GenerationChanged passes updates that change the generation, that is, the spec; a write of only
// the status does not pass.
func GenerationChanged[T informer.Object]() Predicate[T] {
	return changed(func(oldObj, newObj T) bool { return oldObj.GetGeneration() != newObj.GetGeneration() })
}

// ResourceVersionChanged passes updates that change anything; a resync does not pass.
func ResourceVersionChanged[T informer.Object]() Predicate[T] {
	return changed(func(oldObj, newObj T) bool { return oldObj.GetResourceVersion() != newObj.GetResourceVersion() })
}

// LabelChanged passes updates that change the labels.
func LabelChanged[T informer.Object]() Predicate[T] {
	return changed(func(oldObj, newObj T) bool { return !maps.Equal(oldObj.GetLabels(), newObj.GetLabels()) })
}

// AnnotationChanged passes updates that change the annotations. Combined with GenerationChanged by
// Or, it passes everything that a user can write.
func AnnotationChanged[T informer.Object]() Predicate[T] {
	return changed(func(oldObj, newObj T) bool { return !maps.Equal(oldObj.GetAnnotations(), newObj.GetAnnotations()) })
}

// changed compares the states of an update, and rejects an update that lacks a state. Every other
// event passes.
func changed[T informer.Object](differ func(oldObj, newObj T) bool) Predicate[T] {
	return Predicate[T]{Update: func(oldObj, newObj T) bool {
		return !isNil(oldObj) && !isNil(newObj) && differ(oldObj, newObj)
	}}
}

// And passes events that all predicates pass; it calls them in order until one rejects.
func And[T informer.Object](predicates ...Predicate[T]) Predicate[T] {
	all := func(ask func(Predicate[T]) bool) bool {
		for _, p := range predicates {
			if !ask(p) {
				return false
			}
		}
		return true
	}
	return combine(all)
}

// Or passes events that any predicate passes; it calls them in order until one passes.
func Or[T informer.Object](predicates ...Predicate[T]) Predicate[T] {
	one := func(ask func(Predicate[T]) bool) bool {
		return slices.ContainsFunc(predicates, ask)
	}
	return combine(one)
}

// Not passes what predicate rejects.
func Not[T informer.Object](predicate Predicate[T]) Predicate[T] {
	return combine(func(ask func(Predicate[T]) bool) bool { return !ask(predicate) })
}

func combine[T informer.Object](over func(ask func(Predicate[T]) bool) bool) Predicate[T] {
	return Predicate[T]{
		Create: func(obj T) bool {
			return over(func(p Predicate[T]) bool { return p.create(obj) })
		},
		Update: func(oldObj, newObj T) bool {
			return over(func(p Predicate[T]) bool { return p.update(oldObj, newObj) })
		},
		Delete: func(obj informer.DeletedObject[T]) bool {
			return over(func(p Predicate[T]) bool { return p.delete(obj) })
		},
	}
}
