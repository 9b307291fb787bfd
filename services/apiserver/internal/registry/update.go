package registry

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/metadata"
	"github.com/garboard/garboard/services/apiserver/internal/registry/deletion"
	"github.com/garboard/garboard/services/apiserver/internal/registry/managedfields"
)

var (
	errModified = errors.New("the object has been modified; please apply your changes to the latest version and try again")
	errEmptied  = errors.New("the last finalizer of a deleted object is gone")
)

// Change returns the object that replaces current. current is read-only. If the object changes
// meanwhile, the registry calls the Change again with the new state.
type Change func(current scheme.Object) (scheme.Object, error)

// Update replaces an object, or the part that a subresource covers, by what change returns. If that
// has a resourceVersion that is not current, the result is a conflict. An update that removes the
// last finalizer of an object that is being deleted deletes it. An update that changes nothing
// writes nothing. Update returns what was written.
func (r *Resource) Update(ctx context.Context, namespace, name string, change func(current scheme.Object) (scheme.Object, error), opts UpdateOptions) (scheme.Object, error) {
	rules := r.strategy.Update
	if opts.Subresource != "" {
		sub, ok := r.strategy.Subresources[opts.Subresource]
		if !ok {
			return nil, apierrors.NewNotFound(r.kind.GroupResource(), name+"/"+opts.Subresource)
		}
		rules = sub
	}
	if opts.OwnersGiven {
		opts.record = recordGiven
	}
	for {
		u := &updating{resource: r, namespace: namespace, name: name, change: change, opts: opts, rules: rules}
		updated, err := u.run(ctx)
		switch {
		case err == nil:
			return r.present(updated)
		case errors.Is(err, errEmptied):
			gone, err := r.remove(ctx, namespace, name, u.old)
			if err == nil {
				return r.present(r.withRevision(u.obj, gone))
			}
			if !errors.Is(err, errChanged) {
				return nil, r.rename(err)
			}
		case apierrors.IsNotFound(err) && (r.strategy.AllowCreateOnUpdate || opts.applied) && opts.Subresource == "":
			created, err := r.createByUpdate(ctx, namespace, name, change, opts)
			if err == nil || !apierrors.IsAlreadyExists(err) {
				return created, err
			}
		case tooLarge(err) && opts.record == recordWriter:
			opts.record = recordNobody
		default:
			return nil, r.rename(err)
		}
	}
}

// updating is one attempt of an update.
type updating struct {
	resource        *Resource
	namespace, name string
	change          Change
	opts            UpdateOptions
	rules           kinds.Change

	old, obj scheme.Object         // of the last call of next; both as stored
	giveBack func(context.Context) // nil if nothing was reserved
	admitted *admission.Request
}

func (u *updating) run(ctx context.Context) (scheme.Object, error) {
	r := u.resource
	if u.opts.DryRun {
		current, err := r.store.Get(ctx, r.stored, u.namespace, u.name)
		if err != nil {
			return nil, err
		}
		obj, err := u.next(ctx, current)
		if errors.Is(err, errEmptied) {
			return u.obj, nil
		}
		return obj, err
	}
	updated, err := r.store.Update(ctx, r.stored, u.namespace, u.name, func(current scheme.Object) (scheme.Object, error) {
		return u.next(ctx, current)
	})
	if err != nil {
		if refused(err) || errors.Is(err, errEmptied) {
			u.takeBack(ctx)
		}
		return nil, err
	}
	r.release(ctx, u.old, updated)
	r.awaitObeyed(ctx, updated)
	return updated, nil
}

// next computes the object that replaces current.
func (u *updating) next(ctx context.Context, current scheme.Object) (scheme.Object, error) {
	r := u.resource
	u.takeBack(ctx)
	old, err := r.present(current)
	if err != nil {
		return nil, err
	}
	changed, err := u.change(old)
	if err != nil {
		return nil, err
	}
	if err := kinds.Check(r.kind, changed); err != nil {
		return nil, err
	}
	// A PUT returns the same object at every attempt, and the code below modifies it.
	obj, err := deepCopy(changed)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if err := u.check(obj, old); err != nil {
		return nil, err
	}
	if r.strategy.Default != nil {
		r.strategy.Default(obj)
	}
	r.own(u.opts.record, u.opts.Subresource, old, obj, u.opts.FieldManager)
	if err := u.mutate(ctx, obj, old); err != nil {
		return nil, err
	}
	u.prepare(obj, old)
	if err := u.validate(ctx, obj, old); err != nil {
		return nil, err
	}
	if u.rules.Warnings != nil {
		admission.Warn(ctx, u.rules.Warnings(obj, old)...)
	}
	if r.strategy.Canonicalize != nil {
		r.strategy.Canonicalize(obj)
	}
	managedfields.KeepTimes(obj, old)
	if err := u.show(obj, old); err != nil {
		return nil, err
	}
	if err := r.admission.Validate(ctx, u.admitted); err != nil {
		return nil, err
	}
	stored, err := r.storable(obj)
	if err != nil {
		return nil, err
	}
	giveBack, err := r.reserve(ctx, obj, old, u.opts.DryRun)
	if err != nil {
		return nil, err
	}
	u.giveBack = giveBack
	u.old, u.obj = current, stored
	if deletion.Emptied(r.strategy, obj, old) {
		return nil, errEmptied
	}
	return u.obj, nil
}

// mutate has plugins change obj.
func (u *updating) mutate(ctx context.Context, obj, old scheme.Object) error {
	u.admitted = &admission.Request{
		Verb: admission.Update, Kind: u.resource.kind, Namespace: u.namespace, Name: u.name, Subresource: u.opts.Subresource,
		DryRun: u.opts.DryRun, Options: admission.UpdateOptions(u.opts.FieldManager, u.opts.DryRun),
	}
	if err := u.show(obj, old); err != nil {
		return err
	}
	if err := u.resource.mutate(ctx, u.admitted); err != nil {
		return err
	}
	if part := u.opts.Admitted; part != nil {
		return part.Take(obj, u.admitted.Object)
	}
	return u.resource.checkNamespace(u.namespace, obj)
}

// show sets the objects that plugins see.
func (u *updating) show(obj, old scheme.Object) error {
	part := u.opts.Admitted
	if part == nil {
		u.admitted.Object, u.admitted.Old = obj, old
		return nil
	}
	u.admitted.Subresource = part.Subresource
	var err error
	if u.admitted.Object, err = part.Show(obj); err != nil {
		return err
	}
	u.admitted.Old, err = part.Show(old)
	return err
}

// takeBack undoes what an earlier attempt reserved and charged, if anything.
func (u *updating) takeBack(ctx context.Context) {
	if u.giveBack != nil {
		u.giveBack(ctx)
	}
	u.admitted.Undo(ctx)
	u.giveBack, u.admitted = nil, nil
}

// check compares the name, UID and resourceVersion that a client sent with the actual ones.
func (u *updating) check(obj, old scheme.Object) error {
	r := u.resource
	if obj.GetName() != "" && obj.GetName() != u.name {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", obj.GetName(), u.name))
	}
	if err := r.checkNamespace(u.namespace, obj); err != nil {
		return err
	}
	if uid := obj.GetUID(); uid != "" && uid != old.GetUID() {
		if u.opts.applied {
			return apierrors.NewInvalid(r.kind.GroupKind(), u.name, field.ErrorList{
				field.Invalid(field.NewPath("metadata", "uid"), uid, apivalidation.FieldImmutableErrorMsg),
			})
		}
		return apierrors.NewConflict(r.kind.GroupResource(), u.name, PreconditionFailed("UID", uid, old.GetUID()))
	}
	version := obj.GetResourceVersion()
	if version == "" || version == "0" {
		if r.strategy.ConditionalUpdate {
			return apierrors.NewInvalid(schema.GroupKind{Group: r.kind.Group, Kind: r.kind.Resource}, u.name, field.ErrorList{
				field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update"),
			})
		}
		return nil
	}
	if _, err := strconv.ParseUint(version, 10, 63); err != nil {
		return apierrors.NewInvalid(r.kind.GroupKind(), u.name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), version, err.Error()),
		})
	}
	if version != old.GetResourceVersion() {
		return apierrors.NewConflict(r.kind.GroupResource(), u.name, errModified)
	}
	return nil
}

// prepare restores the fields of old that no update may change.
func (u *updating) prepare(obj, old scheme.Object) {
	obj.GetObjectKind().SetGroupVersionKind(u.resource.kind.GroupVersionKind)
	obj.SetResourceVersion(old.GetResourceVersion())
	obj.SetGeneration(old.GetGeneration())
	obj.SetSelfLink(old.GetSelfLink())
	if u.rules.Prepare != nil {
		u.rules.Prepare(obj, old)
	}
	obj.SetUID(old.GetUID())
	obj.SetCreationTimestamp(old.GetCreationTimestamp())
	// A deletion in progress stays; setting these fields on other objects is refused as a change.
	if at := old.GetDeletionTimestamp(); at != nil {
		obj.SetDeletionTimestamp(at)
	}
	if grace := old.GetDeletionGracePeriodSeconds(); grace != nil && obj.GetDeletionGracePeriodSeconds() == nil {
		obj.SetDeletionGracePeriodSeconds(grace)
	}
}

func (u *updating) validate(ctx context.Context, obj, old scheme.Object) error {
	errs := metadata.ValidateUpdate(obj, old)
	end, err := u.resource.registry.turns.Take(ctx, u.resource.strategy)
	if err != nil {
		return err
	}
	defer func() { end(len(errs) == 0) }()
	if u.rules.Validate != nil {
		errs = append(errs, u.rules.Validate(obj, old)...)
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(u.resource.kind.GroupKind(), u.name, errs)
	}
	return nil
}

// createByUpdate handles the PUT or Apply of an object that does not exist.
func (r *Resource) createByUpdate(ctx context.Context, namespace, name string, change Change, opts UpdateOptions) (scheme.Object, error) {
	empty := r.kind.New()
	obj, err := change(empty)
	if err != nil {
		return nil, err
	}
	if err := kinds.Check(r.kind, obj); err != nil {
		return nil, err
	}
	if obj, err = deepCopy(obj); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if uid := obj.GetUID(); uid != "" {
		if opts.applied {
			return nil, apierrors.NewConflict(r.kind.GroupResource(), name,
				fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
		}
		return nil, apierrors.NewConflict(r.kind.GroupResource(), name, PreconditionFailed("UID", uid, ""))
	}
	if version := obj.GetResourceVersion(); version != "" && version != "0" {
		return nil, apierrors.NewConflict(r.kind.GroupResource(), name, errModified)
	}
	if obj.GetName() == "" {
		obj.SetName(name)
	} else if obj.GetName() != name {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", obj.GetName(), name))
	}
	if err := r.mayCreate(ctx, namespace, name); err != nil {
		return nil, err
	}
	create := metav1.CreateOptions{FieldManager: opts.FieldManager}
	if opts.DryRun {
		create.DryRun = []string{metav1.DryRunAll}
	}
	created, err := r.create(ctx, namespace, obj, create, opts.record)
	if err == nil && opts.Created != nil {
		*opts.Created = true
	}
	return created, err
}

// withRevision returns obj with the resourceVersion of the deletion that followed it.
func (r *Resource) withRevision(obj, gone scheme.Object) scheme.Object {
	if gone != nil {
		obj.SetResourceVersion(gone.GetResourceVersion())
	}
	return obj
}
