package informer

// ResourceEventHandler is told of the changes of a view, one call at a time for each
// handler, after the store has them (client-go, tools/cache.ResourceEventHandler). The
// objects are shared with the store and with other handlers: copy before changing.
type ResourceEventHandler[T Object] interface {
	// OnAdd tells of an object that the handler did not know. isInInitialList says that it
	// was there when the handler began.
	OnAdd(obj T, isInInitialList bool)
	// OnUpdate tells of a change, or of a resync, when both are the same object.
	OnUpdate(oldObj, newObj T)
	// OnDelete tells of an object that is gone.
	OnDelete(obj DeletedObject[T])
}

// DeletedObject is what is known of an object that is gone.
type DeletedObject[T Object] struct {
	// Key is namespace/name, or name.
	Key string
	// OptionalObj is the last known state; nil if none is known.
	OptionalObj T
	// FinalStateUnknown says that the deletion itself was not seen, so that OptionalObj may
	// be older than the object's last state.
	FinalStateUnknown bool
}

// ResourceEventHandlerFuncs is a handler made of functions, each of which may be nil.
type ResourceEventHandlerFuncs[T Object] struct {
	AddFunc    func(obj T, isInInitialList bool)
	UpdateFunc func(oldObj, newObj T)
	DeleteFunc func(obj DeletedObject[T])
}

// OnAdd calls AddFunc.
func (f ResourceEventHandlerFuncs[T]) OnAdd(obj T, isInInitialList bool) {
	if f.AddFunc != nil {
		f.AddFunc(obj, isInInitialList)
	}
}

// OnUpdate calls UpdateFunc.
func (f ResourceEventHandlerFuncs[T]) OnUpdate(oldObj, newObj T) {
	if f.UpdateFunc != nil {
		f.UpdateFunc(oldObj, newObj)
	}
}

// OnDelete calls DeleteFunc.
func (f ResourceEventHandlerFuncs[T]) OnDelete(obj DeletedObject[T]) {
	if f.DeleteFunc != nil {
		f.DeleteFunc(obj)
	}
}
