package informer

// ResourceEventHandler is notified of the changes of a view after the store has them, one call at a
// time for each handler (client-go, tools/cache.ResourceEventHandler). The objects are shared with
// the store and with other handlers: copy before changing.
type ResourceEventHandler[T Object] interface {
	// OnAdd reports an object that is new to the handler. isInInitialList means that the object
	// existed when the handler began.
	OnAdd(obj T, isInInitialList bool)
	// OnUpdate reports a change, or a resync if both are the same object.
	OnUpdate(oldObj, newObj T)
	// OnDelete reports an object that is gone.
	OnDelete(obj DeletedObject[T])
}

// DeletedObject describes an object that is gone.
type DeletedObject[T Object] struct {
	// Key is namespace/name, or name.
	Key string
	// OptionalObj is the last known state; nil if none is known.
	OptionalObj T
	// FinalStateUnknown means that the deletion itself was not seen, so OptionalObj may be older
	// than the object's last state.
	FinalStateUnknown bool
}

// GetKey returns the key, whether or not a state is known.
func (d DeletedObject[T]) GetKey() string { return d.Key }

// GetObjectName returns the namespace (empty if there is none) and the name, whether or not a state
// is known.
func (d DeletedObject[T]) GetObjectName() (namespace, name string) {
	namespace, name, err := SplitMetaNamespaceKey(d.Key)
	if err != nil {
		return "", d.Key
	}
	return namespace, name
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

// FilteringResourceEventHandler passes to Handler the objects that FilterFunc accepts. An object
// that an update brings into the filter is an add, outside the initial list; one that leaves the
// filter is a delete of its old state. For a deleted object FilterFunc gets the last known state.
type FilteringResourceEventHandler[T Object] struct {
	FilterFunc func(obj T) bool
	Handler    ResourceEventHandler[T]
}

// OnAdd passes on an object that the filter accepts.
func (f FilteringResourceEventHandler[T]) OnAdd(obj T, isInInitialList bool) {
	if f.FilterFunc(obj) {
		f.Handler.OnAdd(obj, isInInitialList)
	}
}

// OnUpdate passes on an update, an add or a delete, depending on which of the two states the filter
// accepts.
func (f FilteringResourceEventHandler[T]) OnUpdate(oldObj, newObj T) {
	switch before, after := f.FilterFunc(oldObj), f.FilterFunc(newObj); {
	case before && after:
		f.Handler.OnUpdate(oldObj, newObj)
	case after:
		f.Handler.OnAdd(newObj, false)
	case before:
		f.Handler.OnDelete(DeletedObject[T]{Key: Key(oldObj), OptionalObj: oldObj})
	}
}

// OnDelete passes on an object that the filter accepts.
func (f FilteringResourceEventHandler[T]) OnDelete(obj DeletedObject[T]) {
	if f.FilterFunc(obj.OptionalObj) {
		f.Handler.OnDelete(obj)
	}
}
