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

// GetKey gives the key, whether or not a state is known.
func (d DeletedObject[T]) GetKey() string { return d.Key }

// GetObjectName gives the namespace, empty if there is none, and the name, whether or not a
// state is known.
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

// FilteringResourceEventHandler tells Handler of the objects that FilterFunc lets through: an
// object that comes into the filter by an update is an add, which is not of the initial list,
// and one that leaves it is a delete of its old state. FilterFunc is given the last known state
// of a deleted object.
type FilteringResourceEventHandler[T Object] struct {
	FilterFunc func(obj T) bool
	Handler    ResourceEventHandler[T]
}

// OnAdd passes on what the filter lets through.
func (f FilteringResourceEventHandler[T]) OnAdd(obj T, isInInitialList bool) {
	if f.FilterFunc(obj) {
		f.Handler.OnAdd(obj, isInInitialList)
	}
}

// OnUpdate passes on an update, an add or a delete, as the filter sees the two states.
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

// OnDelete passes on what the filter lets through.
func (f FilteringResourceEventHandler[T]) OnDelete(obj DeletedObject[T]) {
	if f.FilterFunc(obj.OptionalObj) {
		f.Handler.OnDelete(obj)
	}
}
