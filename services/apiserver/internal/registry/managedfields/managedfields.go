package managedfields

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// Config configures Owners. Table is required.
type Config struct {
	// Table is the set of served kinds.
	Table *scheme.Table
	// Conversion returns the conversion between a kind and the one that is stored. Nil means that
	// every kind is stored as itself.
	Conversion func(kind *scheme.Kind) Conversion
	// Definition returns the definition of a kind, which has the schema of a custom one. Nil means that
	// no kind has one: what their fields are is deduced from each object.
	Definition func(kind *scheme.Kind) *kinds.Definition
	// Logger receives what no writer can be told; slog.Default if nil.
	Logger *slog.Logger
}

// Owners keeps the record for all kinds. It reads the definitions of the types on first use. It is
// safe for concurrent use.
type Owners struct {
	table      *scheme.Table
	definition func(*scheme.Kind) *kinds.Definition
	versions   *versions
	log        *slog.Logger
	types      func() (*types, error)
	// of is the definition whose schema counts for its kind; nil for the one that is served.
	of *kinds.Definition

	// parts are made anew when kinds come and go, since a kind may come back with other fields.
	parts *scheme.Derived[*parts]
}

// parts are the library's field managers that were needed so far.
type parts struct {
	custom *customTypes
	mu     sync.RWMutex
	byPart map[part]*managedfields.FieldManager
}

// part is what a writer writes to: all of a kind, or a subresource.
type part struct {
	schema.GroupVersionKind
	subresource string
	// of is the definition of a custom kind whose schema counts; nil for the one that is served.
	of *kinds.Definition
}

// New returns the record keeper.
func New(cfg Config) *Owners {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Conversion == nil {
		cfg.Conversion = func(*scheme.Kind) Conversion { return Conversion{} }
	}
	if cfg.Definition == nil {
		cfg.Definition = func(*scheme.Kind) *kinds.Definition { return nil }
	}
	var custom *customTypes
	return &Owners{
		table: cfg.Table, log: cfg.Logger, definition: cfg.Definition,
		versions: &versions{table: cfg.Table, conversion: cfg.Conversion},
		types:    sync.OnceValues(func() (*types, error) { return newTypes(cfg.Table) }),
		parts: scheme.Derive(cfg.Table, func([]*scheme.Kind) *parts {
			custom = customTypesOf(cfg.Table, cfg.Definition, custom)
			return &parts{custom: custom, byPart: map[part]*managedfields.FieldManager{}}
		}),
	}
}

// With returns the same record keeper for writes under a definition, which may no longer be the one that is
// served: what is checked against a definition must have been merged by its schema.
func (o *Owners) With(definition *kinds.Definition) *Owners {
	if definition == nil || !definition.Custom {
		return o
	}
	with := *o
	with.of = definition
	return &with
}

// ObjectToTyped returns an object with the fields of its type, as apimachinery's TypeConverter does.
func (o *Owners) ObjectToTyped(obj runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error) {
	builtin, err := o.types()
	if err != nil {
		return nil, err
	}
	return converter{builtin, o.parts.Get().custom, o.of}.ObjectToTyped(obj, opts...)
}

// TypedToObject returns an object without a Go type, as apimachinery's TypeConverter does.
func (o *Owners) TypedToObject(from *typed.TypedValue) (runtime.Object, error) {
	return converter{}.TypedToObject(from)
}

// Update sets the owners of obj, with which writer replaces live through a subresource, or as a
// whole if subresource is empty. live is an empty object if obj is new. obj's own managedFields
// count if they can be read, otherwise live's. An empty list, or one of a single empty entry, ends
// the record.
func (o *Owners) Update(kind *scheme.Kind, subresource string, live, obj scheme.Object, writer string) {
	obj.GetObjectKind().SetGroupVersionKind(kind.GroupVersionKind)
	if unchanged(obj, live) {
		RecordOf(live).copied().Restore(obj)
		return
	}
	if err := o.update(kind.GroupVersionKind, subresource, live, obj, writer); err != nil {
		// A record that cannot be updated must not block writes.
		o.log.Error("failed to update the owners of an object's fields",
			"kind", kind.GroupVersionKind, "namespace", obj.GetNamespace(), "name", obj.GetName(), "err", err)
		obj.SetManagedFields(live.GetManagedFields())
	}
}

func (o *Owners) update(gvk schema.GroupVersionKind, subresource string, live, obj scheme.Object, writer string) error {
	manager, err := o.manager(gvk, subresource)
	if err != nil {
		return err
	}
	_, err = manager.Update(live, obj, writer)
	return err
}

// unchanged reports whether obj equals live, apart from its version and managedFields, and asks for
// no other record.
func unchanged(obj, live scheme.Object) bool {
	if metadata, before, ok := metadataOfBoth(obj, live); ok && live.GetUID() != "" {
		record, former := metadata[ownersField], before[ownersField]
		if readable(former) && (record == nil || kinds.EqualValues(record, former)) {
			return sameLoose(obj, live, ownersField, versionField)
		}
	}
	owners, version := obj.GetManagedFields(), obj.GetResourceVersion()
	if live.GetUID() == "" {
		return false
	}
	if alike, moved := compare(owners, live.GetManagedFields()); owners != nil && (!alike || moved) {
		return false
	}
	defer func() {
		obj.SetManagedFields(owners)
		obj.SetResourceVersion(version)
	}()
	obj.SetManagedFields(live.GetManagedFields())
	obj.SetResourceVersion(live.GetResourceVersion())
	return same(obj, live)
}

// same reports whether two objects of one kind have the same content. Comparing their encodings
// takes a tenth of the time of comparing each field.
func same(a, b scheme.Object) bool {
	type message interface {
		Size() int
		Marshal() ([]byte, error)
	}
	one, ok := a.(message)
	other, both := b.(message)
	if !ok || !both {
		return apiequality.Semantic.DeepEqual(a, b)
	}
	if one.Size() != other.Size() {
		return false
	}
	data, err := one.Marshal()
	if err != nil {
		return false
	}
	otherData, err := other.Marshal()
	return err == nil && bytes.Equal(data, otherData)
}

// Apply returns live merged with what writer wants, with the new owners. live is not modified, and
// is an empty object if there is none yet. Fields that writer wanted before and no longer wants are
// removed unless another owner has them. A field that another owner has set to another value is a
// conflict, unless force takes it over. Errors are API errors with Kubernetes' messages and codes.
func (o *Owners) Apply(kind *scheme.Kind, subresource string, live scheme.Object, wanted *unstructured.Unstructured, writer string, force bool) (scheme.Object, error) {
	applied, err := o.apply(kind.GroupVersionKind, subresource, live, wanted, writer, force)
	if err != nil {
		return nil, err
	}
	obj, ok := applied.(scheme.Object)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("applying produced a %T", applied))
	}
	return obj, nil
}

func (o *Owners) apply(gvk schema.GroupVersionKind, subresource string, live runtime.Object, wanted *unstructured.Unstructured, writer string, force bool) (runtime.Object, error) {
	manager, err := o.manager(gvk, subresource)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if err := o.versions.costly(wanted); err != nil {
		return nil, err
	}
	// The library keeps parts of wanted, and a lost race applies it again.
	applied, err := manager.Apply(live, wanted.DeepCopy(), writer, force)
	if err != nil {
		return nil, refusal(err)
	}
	return applied, nil
}

// refusal returns an error of the library as Kubernetes answers it. Errors that are not API errors,
// such as for a field that the type does not have, are 500s without a reason.
func refusal(err error) error {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return err
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error(),
	}}
}

// manager returns the library's field manager for a resource.
func (o *Owners) manager(gvk schema.GroupVersionKind, subresource string) (*managedfields.FieldManager, error) {
	key := part{gvk, subresource, o.of}
	known := o.parts.Get()
	known.mu.RLock()
	found := known.byPart[key]
	known.mu.RUnlock()
	if found != nil {
		return found, nil
	}
	types, err := o.types()
	if err != nil {
		return nil, err
	}
	build := managedfields.NewDefaultFieldManager
	if kind := o.table.Kind(gvk); kind != nil && kind.Custom {
		build = managedfields.NewDefaultCRDFieldManager
	}
	made, err := build(converter{types, known.custom, o.of}, o.versions, o.versions, o.versions, gvk,
		schema.GroupVersion{Group: gvk.Group, Version: runtime.APIVersionInternal}, subresource, filters(o.table, gvk, subresource))
	if err != nil {
		return nil, fmt.Errorf("preparing to keep the owners of %s: %w", gvk, err)
	}
	known.mu.Lock()
	defer known.mu.Unlock()
	known.byPart[key] = made
	return made, nil
}
