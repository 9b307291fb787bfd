package registry

import (
	"context"
	"errors"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/metadata"
	"github.com/garboard/garboard/services/apiserver/internal/registry/objectmeta"
)

// generateAttempts is how many names Kubernetes tries before it gives up (RetryGenerateName).
const generateAttempts = 8

// Create writes a new object into namespace, which is empty for cluster-scoped kinds. The registry
// takes ownership of obj. The field manager of opts becomes the owner of all its fields. Create
// returns what was written.
func (r *Resource) Create(ctx context.Context, namespace string, obj scheme.Object, opts metav1.CreateOptions) (scheme.Object, error) {
	return r.create(ctx, namespace, obj, opts, recordWriter)
}

func (r *Resource) create(ctx context.Context, namespace string, obj scheme.Object, opts metav1.CreateOptions, how record) (scheme.Object, error) {
	if err := kinds.Check(r.kind, obj); err != nil {
		return nil, err
	}
	if err := r.checkNamespace(namespace, obj); err != nil {
		return nil, err
	}
	if r.strategy.Closed != "" {
		return nil, apierrors.NewForbidden(r.kind.GroupResource(), obj.GetName(), errors.New(r.strategy.Closed))
	}
	if obj.GetResourceVersion() != "" && obj.GetResourceVersion() != "0" {
		return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
			Message: "resourceVersion should not be set on objects to be created",
		}}
	}
	obj.SetResourceVersion("")
	objectmeta.Wipe(obj)
	if r.strategy.Default != nil {
		r.strategy.Default(obj)
	}
	r.own(how, "", nil, obj, opts.FieldManager)
	req := &admission.Request{
		Verb: admission.Create, Kind: r.kind, Namespace: namespace, Name: obj.GetName(), Object: obj,
		DryRun: IsDryRun(opts.DryRun), Options: admission.CreateOptions(opts),
	}
	if err := r.mutate(ctx, req); err != nil {
		return nil, err
	}
	if err := r.checkNamespace(namespace, obj); err != nil { // Plugins act for users, too.
		return nil, err
	}
	prefix := ""
	if obj.GetName() == "" && obj.GetGenerateName() != "" {
		prefix = obj.GetGenerateName()
		obj.SetName(objectmeta.GenerateName(prefix))
	}
	objectmeta.Fill(obj, r.kind)
	warnAbout(ctx, obj, r.strategy.ReplacedWarnings)
	if r.strategy.PrepareForCreate != nil {
		r.strategy.PrepareForCreate(obj)
	}
	if user, ok := authn.UserFrom(ctx); ok && r.strategy.Author != nil {
		r.strategy.Author(obj, user)
	}
	if err := r.validateNew(ctx, obj); err != nil {
		return nil, err
	}
	warnAbout(ctx, obj, r.strategy.Warnings)
	warnAbout(ctx, obj, r.strategy.CreationWarnings)
	if r.strategy.Canonicalize != nil {
		r.strategy.Canonicalize(obj)
	}
	req.Name = obj.GetName() // The name is set by now.
	if err := r.admission.Validate(ctx, req); err != nil {
		return nil, err
	}
	created, err := r.writeNamed(ctx, namespace, prefix, obj, IsDryRun(opts.DryRun))
	if tooLarge(err) && len(obj.GetManagedFields()) > 0 {
		obj.SetManagedFields(nil)
		created, err = r.writeNamed(ctx, namespace, prefix, obj, IsDryRun(opts.DryRun))
	}
	if err != nil {
		if refused(err) {
			req.Undo(ctx)
		}
		return nil, err
	}
	return r.present(created)
}

// warnAbout passes the warnings about an object to the client of ctx's request; about may be nil.
func warnAbout(ctx context.Context, obj scheme.Object, about func(scheme.Object) []string) {
	if about != nil {
		admission.Warn(ctx, about(obj)...)
	}
}

// writeNamed stores a complete new object. With a prefix the name is generated, and generated again
// while it is taken.
func (r *Resource) writeNamed(ctx context.Context, namespace, prefix string, obj scheme.Object, dryRun bool) (scheme.Object, error) {
	for attempt := 1; ; attempt++ {
		named := obj
		if prefix != "" { // A failed attempt must not leave in obj what it reserved.
			var err error
			if named, err = deepCopy(obj); err != nil {
				return nil, apierrors.NewInternalError(err)
			}
		}
		created, err := r.write(ctx, namespace, named, dryRun)
		switch {
		case err == nil:
			return created, nil
		case prefix == "" || !apierrors.IsAlreadyExists(err):
			return nil, err
		case attempt == generateAttempts:
			return nil, apierrors.NewGenerateNameConflict(r.kind.GroupResource(), obj.GetName(), 1)
		}
		taken := obj.GetName()
		obj.SetName(objectmeta.GenerateName(prefix))
		if r.strategy.Renamed != nil {
			r.strategy.Renamed(obj, taken)
		}
	}
}

// write stores a complete new object with what its kind reserves for it.
func (r *Resource) write(ctx context.Context, namespace string, obj scheme.Object, dryRun bool) (scheme.Object, error) {
	giveBack, err := r.reserve(ctx, obj, nil, dryRun)
	if err != nil {
		return nil, err
	}
	stored, err := r.storable(obj)
	if err != nil {
		giveBack(ctx)
		return nil, err
	}
	if dryRun {
		_, err := r.store.Get(ctx, r.stored, namespace, obj.GetName())
		switch {
		case apierrors.IsNotFound(err):
			return stored, nil
		case err != nil:
			return nil, err
		}
		return nil, apierrors.NewAlreadyExists(r.kind.GroupResource(), obj.GetName())
	}
	created, err := r.store.Create(ctx, r.stored, stored)
	if err != nil {
		if refused(err) {
			giveBack(ctx)
		}
		return nil, r.explainExisting(ctx, namespace, obj.GetName(), r.rename(err))
	}
	r.awaitObeyed(ctx, created)
	return created, nil
}

// explainExisting adds to an AlreadyExists error that the existing object is being deleted.
func (r *Resource) explainExisting(ctx context.Context, namespace, name string, err error) error {
	var status apierrors.APIStatus
	if !apierrors.IsAlreadyExists(err) || !errors.As(err, &status) {
		return err
	}
	current, getErr := r.store.Get(ctx, r.stored, namespace, name)
	if getErr != nil || current.GetDeletionTimestamp() == nil {
		return err
	}
	explained := status.Status()
	explained.Message = "object is being deleted: " + explained.Message
	return &apierrors.StatusError{ErrStatus: explained}
}

func (r *Resource) validateNew(ctx context.Context, obj scheme.Object) error {
	end, err := r.registry.turns.Take(ctx, r.strategy)
	if err != nil {
		return err
	}
	var errs field.ErrorList
	defer func() { end(len(errs) == 0) }()
	if r.strategy.Validate != nil {
		errs = r.strategy.Validate(obj)
	}
	if errs = metadata.Validate(obj, r.kind.Namespaced, errs); len(errs) > 0 {
		return apierrors.NewInvalid(r.kind.GroupKind(), obj.GetName(), errs)
	}
	return nil
}

// checkNamespace compares the namespace of a request with that of its object, and fills in the latter. It
// removes that of a cluster-scoped object.
func (r *Resource) checkNamespace(namespace string, obj scheme.Object) error {
	if !r.kind.Namespaced {
		namespace = ""
	} else if namespace == "" {
		return apierrors.NewBadRequest("an empty namespace may not be set during creation")
	}
	switch obj.GetNamespace() {
	case namespace:
		return nil
	case "":
		obj.SetNamespace(namespace)
		return nil
	}
	if namespace == "" {
		obj.SetNamespace("")
		return nil
	}
	return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
}

// rename replaces the group and kind in an error of the store by those of the requested kind.
func (r *Resource) rename(err error) error {
	if r.kind == r.stored {
		return err
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return err
	}
	s := status.Status()
	details := *s.Details
	details.Group = r.kind.Group
	s.Details = &details
	s.Message = strings.Replace(s.Message, r.stored.GroupResource().String()+" ", r.kind.GroupResource().String()+" ", 1)
	return &apierrors.StatusError{ErrStatus: s}
}

// IsDryRun reports whether a request's dryRun option forbids writing. Any directive does, known or
// not. https://kubernetes.io/docs/reference/using-api/api-concepts/#dry-run
func IsDryRun(dryRun []string) bool { return len(dryRun) > 0 }

// refused reports whether err means that the write certainly did not happen.
func refused(err error) bool {
	var status apierrors.APIStatus
	return tooLarge(err) || errors.As(err, &status) && status.Status().Code >= 400 && status.Status().Code < http.StatusInternalServerError
}
