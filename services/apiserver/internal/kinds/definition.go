package kinds

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// Level says how much of a kind's behaviour is Kubernetes'.
type Level string

const (
	// Full kinds have Kubernetes' defaults, validation with its field paths and reasons, immutable
	// fields, generations and printer columns.
	Full Level = "full"
	// Generic kinds lack some of that. All of them check metadata, separate spec from status, count
	// generations and have Kubernetes' printer columns.
	Generic Level = "generic"
)

// Definition is everything that generic code may ask about one kind. Functions that are nil do
// nothing. Objects passed to a function belong to the caller's request and may be changed in place,
// except old, which is shared and read-only.
type Definition struct {
	// Kind is what clients know of the kind. The catalog sets it for built-in kinds.
	*scheme.Kind
	// Level says how much of the kind's behaviour is Kubernetes'.
	Level Level
	// Columns are what kubectl prints of an object; nil for its name and creation time.
	Columns *columns.Layout
	// Default sets the fields that a client may omit.
	Default func(obj scheme.Object)
	// Prune removes from an object what its kind does not have, as decoding does for kinds with a Go type,
	// and returns the paths of what it removed if asked for them. Its error means that the object's
	// metadata is of a wrong type. It is nil for kinds with a Go type.
	Prune func(obj scheme.Object, how Pruning) (unknown []string, err error)
	// Restore completes an object that was read from etcd, instead of Default: its schema may have changed
	// since, and it may be of another version than that of Storage. Its error means that the object
	// cannot be read at present.
	Restore func(obj scheme.Object) error
	// Closed says why no object of the kind can be created now; empty for most kinds.
	Closed string
	// PrepareForCreate sets what a client may not choose at creation, such as the status.
	PrepareForCreate func(obj scheme.Object)
	// Author records in a new object which user creates it.
	Author func(obj scheme.Object, user authn.User)
	// Validate returns all errors in a new object.
	Validate func(obj scheme.Object) field.ErrorList
	// Costly says that a validation may take long: it compiles expressions of users, or evaluates them. Few
	// such validations run at a time.
	Costly bool
	// Reserve hands out what the objects may hold only once, such as addresses; nil if nothing.
	Reserve Reserver
	// Canonicalize converts a valid object to the form that is stored.
	Canonicalize func(obj scheme.Object)
	// Update is how the object itself is updated.
	Update Change
	// Subresources are how its parts are updated, by name ("status").
	Subresources map[string]Change
	// Warnings returns warnings for the client that creates the object, or replaces it unless Update has
	// its own. The object has its defaults and is valid.
	Warnings func(obj scheme.Object) []string
	// CreationWarnings returns additional warnings for the client that creates the object.
	CreationWarnings func(obj scheme.Object) []string
	// ReplacedWarnings returns warnings for the client that creates the object, about what
	// PrepareForCreate replaces.
	ReplacedWarnings func(obj scheme.Object) []string
	// FieldLabels are the fields by which lists can select, besides metadata.name and
	// metadata.namespace.
	FieldLabels []string
	// Fields returns the values of FieldLabels.
	Fields func(obj scheme.Object) fields.Set
	// AllowCreateOnUpdate allows a PUT of an unknown name to create the object.
	AllowCreateOnUpdate bool
	// ConditionalUpdate requires a resourceVersion in every PUT.
	ConditionalUpdate bool
	// Obeyed objects decide over other writes. A write of one returns only when the watch cache of the
	// apiserver that made it has it, or after a second: from then on, the apiserver acts on it.
	Obeyed bool
	// Grace returns for how many seconds an object that is being deleted stays; nil if it goes at
	// once. A nil function means that the kind has no graceful deletion.
	Grace func(obj scheme.Object, opts *metav1.DeleteOptions) *int64
	// Renamed adapts a new object that gets another generated name because its first one was taken.
	Renamed func(obj scheme.Object, taken string)
	// Orphans leaves an object's dependents behind when it is deleted without a propagation policy.
	Orphans bool
	// ReturnDeleted makes DELETE return the object instead of a Status.
	ReturnDeleted bool
	// Held reports whether something other than metadata.finalizers keeps a deleted object: a
	// namespace's spec.finalizers.
	Held func(obj scheme.Object) bool
	// Terminating marks an object whose deletion begins.
	Terminating func(obj scheme.Object)
	// Replicas is how the scale subresource reads and changes the objects; nil if there is none.
	Replicas *Replicas
	// OpenAPI is what clients read of a custom kind's schema; nil for kinds with a Go type, whose schema
	// is generated from it.
	OpenAPI *OpenAPI
	// DeletedWith are the kinds of which the object with the same namespace and name is deleted with
	// an object, whoever created it.
	DeletedWith []schema.GroupVersionKind
	// ToStored and FromStored convert between the kind and the one that is stored in etcd; nil when
	// they are the same.
	ToStored, FromStored Conversion
}

// Conversion converts objects from one version of a kind to another: as many as it gets, in their order.
// It does not change them. Its error says which program failed to convert.
type Conversion func(objs ...scheme.Object) ([]scheme.Object, error)

// EachConverted returns the conversion that converts each object by itself, and never fails.
func EachConverted[From scheme.Object](convert func(obj From) scheme.Object) Conversion {
	return func(objs ...scheme.Object) ([]scheme.Object, error) {
		converted := make([]scheme.Object, len(objs))
		for i, obj := range objs {
			converted[i] = convert(obj.(From))
		}
		return converted, nil
	}
}

// One converts one object; a nil Conversion returns it.
func (c Conversion) One(obj scheme.Object) (scheme.Object, error) {
	if c == nil || obj == nil {
		return obj, nil
	}
	converted, err := c(obj)
	if err != nil {
		return nil, err
	}
	return converted[0], nil
}

// Change is how an object or a part of it is updated.
type Change struct {
	// Prepare restores from old what the change may not touch.
	Prepare func(obj, old scheme.Object)
	// Validate returns all errors in the change.
	Validate func(obj, old scheme.Object) field.ErrorList
	// Warnings returns warnings for the client that makes the change, which is valid.
	Warnings func(obj, old scheme.Object) []string
}
