package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
)

var (
	errChanged   = errors.New("the object changed since it was read")
	errDeleteNow = errors.New("nothing holds back the deletion")
	errPending   = errors.New("the object is being deleted already")
)

// Delete deletes an object: at once or, if it has finalizers or is deleted gracefully, by marking
// it with a deletionTimestamp. It returns the object's last state and whether the object is gone.
func (r *Resource) Delete(ctx context.Context, namespace, name string, opts metav1.DeleteOptions) (scheme.Object, bool, error) {
	if errs := metav1validation.ValidateDeleteOptions(&opts); len(errs) > 0 {
		return nil, false, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", errs)
	}
	if IgnoresReadErrors(opts) {
		obj, err := r.deleteUnreadable(ctx, namespace, name, opts)
		return obj, err == nil, err
	}
	req := &admission.Request{Verb: admission.Delete, Kind: r.kind, Namespace: namespace, Name: name, DryRun: IsDryRun(opts.DryRun)}
	if err := r.admission.Mutate(ctx, req); err != nil {
		return nil, false, err
	}
	if IsDryRun(opts.DryRun) {
		return r.dryDelete(ctx, req, opts)
	}
	var marked scheme.Object
	for {
		obj, gone, err := r.tryDelete(ctx, req, opts)
		switch {
		case errors.Is(err, errChanged):
			if obj != nil {
				marked = obj
			}
		case apierrors.IsNotFound(err) && obj != nil:
			return r.present(obj), true, nil
		case apierrors.IsNotFound(err) && marked != nil:
			return r.present(marked), true, nil
		case err != nil:
			return nil, false, r.rename(err)
		default:
			return r.present(obj), gone, nil
		}
	}
}

// tryDelete is one attempt of Delete. With an error it returns the object only if it has marked it
// for immediate removal. Another client that saw the mark may then be the first to remove it, as a
// pod's node agent may: that is the requested result, not an error.
func (r *Resource) tryDelete(ctx context.Context, req *admission.Request, opts metav1.DeleteOptions) (scheme.Object, bool, error) {
	namespace, name := req.Namespace, req.Name
	var seen scheme.Object
	final := false
	marked, err := r.store.Update(ctx, r.stored, namespace, name, func(current scheme.Object) (scheme.Object, error) {
		seen = current
		obj, last, err := r.mark(current, opts)
		final = last
		if admitErr := r.admitDelete(ctx, req, current, err); admitErr != nil {
			return nil, admitErr
		}
		return obj, err
	})
	switch {
	case errors.Is(err, errPending):
		return seen, false, nil
	case errors.Is(err, errDeleteNow):
	case err != nil:
		return nil, false, err
	case !final:
		return marked, false, nil
	default:
		seen = marked
	}
	gone, err := r.remove(ctx, namespace, name, seen)
	if err != nil {
		return marked, false, err
	}
	return gone, true, nil
}

// admitDelete shows the plugins the object to be deleted, unless marking it failed with err or
// found that there is nothing to do.
func (r *Resource) admitDelete(ctx context.Context, req *admission.Request, current scheme.Object, err error) error {
	if err != nil && !errors.Is(err, errDeleteNow) {
		return nil
	}
	req.Old = r.present(current)
	return r.admission.Validate(ctx, req)
}

// mark returns current as a deletion with opts leaves it, and whether to remove it right after.
// errDeleteNow reports that it needs no marking, errPending that there is nothing to do. The rules
// are those of Kubernetes' BeforeDelete and updateForGracefulDeletionAndFinalizers.
func (r *Resource) mark(current scheme.Object, opts metav1.DeleteOptions) (obj scheme.Object, last bool, err error) {
	if err := r.checkPreconditions(current, opts.Preconditions); err != nil {
		return nil, false, err
	}
	obj, err = deepCopy(current)
	if err != nil {
		return nil, false, apierrors.NewInternalError(err)
	}
	now := metav1.Now().Rfc3339Copy()
	if r.strategy.Held != nil {
		if obj.GetDeletionTimestamp() == nil {
			obj.SetDeletionTimestamp(&now)
			r.strategy.Terminating(obj)
			obj.SetFinalizers(r.collectorFinalizers(obj, opts))
			return obj, false, nil
		}
		if r.strategy.Held(obj) {
			return nil, false, errPending
		}
	}
	graceful, err := r.markGraceful(obj, opts, now)
	if err != nil {
		return nil, false, err
	}
	obj.SetFinalizers(r.collectorFinalizers(obj, opts))
	pending := len(obj.GetFinalizers()) > 0
	switch {
	case graceful != nil:
		return obj, !pending && *graceful == 0, nil
	case pending:
		if obj.GetDeletionTimestamp() == nil && obj.GetGeneration() > 0 {
			obj.SetGeneration(obj.GetGeneration() + 1)
		}
		if at := obj.GetDeletionTimestamp(); at == nil || at.After(now.Time) {
			obj.SetDeletionTimestamp(&now)
		}
		obj.SetDeletionGracePeriodSeconds(new(int64))
		return obj, false, nil
	}
	return nil, false, errDeleteNow
}

// markGraceful sets the time at which obj is to be gone and returns the seconds until then; nil if
// obj is not deleted gracefully.
func (r *Resource) markGraceful(obj scheme.Object, opts metav1.DeleteOptions, now metav1.Time) (*int64, error) {
	if opts.GracePeriodSeconds != nil && *opts.GracePeriodSeconds < 0 {
		one := int64(1) // Negative values mean one second.
		opts.GracePeriodSeconds = &one
	}
	if r.strategy.Grace == nil {
		return nil, nil
	}
	if obj.GetDeletionTimestamp() == nil {
		period := r.strategy.Grace(obj, &opts)
		if period == nil {
			return nil, nil
		}
		at := metav1.NewTime(now.Add(time.Duration(*period) * time.Second))
		obj.SetDeletionTimestamp(&at)
		obj.SetDeletionGracePeriodSeconds(period)
		if obj.GetGeneration() > 0 {
			obj.SetGeneration(obj.GetGeneration() + 1)
		}
		return period, nil
	}
	had := obj.GetDeletionGracePeriodSeconds()
	if had == nil || *had == 0 {
		return nil, nil
	}
	if opts.GracePeriodSeconds == nil || *opts.GracePeriodSeconds >= *had {
		return nil, errPending // a grace period can only be shortened
	}
	period := *opts.GracePeriodSeconds
	at := metav1.NewTime(obj.GetDeletionTimestamp().Add(time.Duration(period-*had) * time.Second))
	if at.Before(&now) {
		at = now
		if period != 0 {
			period = 1 // still graceful: the process that stops the pod makes the final delete
		}
	}
	obj.SetDeletionTimestamp(&at)
	obj.SetDeletionGracePeriodSeconds(&period)
	return &period, nil
}

func (r *Resource) checkPreconditions(current scheme.Object, p *metav1.Preconditions) error {
	if p == nil {
		return nil
	}
	// Kubernetes names the kind here, not the resource (apiserver, registry/rest.BeforeDelete).
	of := schema.GroupResource{Group: r.kind.Group, Resource: r.kind.Kind}
	if p.UID != nil && *p.UID != current.GetUID() {
		return apierrors.NewConflict(of, current.GetName(), fmt.Errorf(
			"the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *p.UID, current.GetUID()))
	}
	if p.ResourceVersion != nil && *p.ResourceVersion != current.GetResourceVersion() {
		return apierrors.NewConflict(of, current.GetName(), fmt.Errorf(
			"the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *p.ResourceVersion, current.GetResourceVersion()))
	}
	return nil
}

// collectorFinalizers returns obj's finalizers as the propagation policy requires: it adds or
// removes "orphan" and "foregroundDeletion" and keeps the others. Without a policy, the object's
// finalizers decide, else its kind's default.
func (r *Resource) collectorFinalizers(obj scheme.Object, opts metav1.DeleteOptions) []string {
	orphan := slices.Contains(obj.GetFinalizers(), metav1.FinalizerOrphanDependents)
	foreground := !orphan && slices.Contains(obj.GetFinalizers(), metav1.FinalizerDeleteDependents)
	orphan = orphan || r.strategy.Orphans && !foreground
	//nolint:staticcheck // Old clients still send orphanDependents.
	switch {
	case opts.OrphanDependents != nil:
		orphan, foreground = *opts.OrphanDependents, false
	case opts.PropagationPolicy != nil:
		orphan = *opts.PropagationPolicy == metav1.DeletePropagationOrphan
		foreground = *opts.PropagationPolicy == metav1.DeletePropagationForeground
	}
	finalizers := slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool {
		return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
	})
	if orphan {
		finalizers = append(finalizers, metav1.FinalizerOrphanDependents)
	}
	if foreground {
		finalizers = append(finalizers, metav1.FinalizerDeleteDependents)
	}
	return finalizers
}

// remove deletes an object from etcd if it is still as seen; errChanged if it is not.
func (r *Resource) remove(ctx context.Context, namespace, name string, seen scheme.Object) (scheme.Object, error) {
	gone, err := r.store.Delete(ctx, r.stored, namespace, name, func(current scheme.Object) error {
		if current.GetResourceVersion() != seen.GetResourceVersion() {
			return errChanged
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	r.release(ctx, gone, nil)
	r.deleteCompanions(ctx, gone)
	return gone, nil
}

func (r *Resource) dryDelete(ctx context.Context, req *admission.Request, opts metav1.DeleteOptions) (scheme.Object, bool, error) {
	current, err := r.store.Get(ctx, r.stored, req.Namespace, req.Name)
	if err != nil {
		return nil, false, r.rename(err)
	}
	obj, last, err := r.mark(current, opts)
	if admitErr := r.admitDelete(ctx, req, current, err); admitErr != nil {
		return nil, false, admitErr
	}
	switch {
	case errors.Is(err, errDeleteNow):
		return r.present(current), true, nil
	case errors.Is(err, errPending):
		return r.present(current), false, nil
	case err != nil:
		return nil, false, err
	}
	return r.present(obj), last, nil
}

// DeleteCollection deletes the objects that list selects, each as Delete does, and returns them as
// a list. An object that is already gone is not an error.
func (r *Resource) DeleteCollection(ctx context.Context, namespace string, del metav1.DeleteOptions, list metav1.ListOptions) (runtime.Object, error) {
	if IgnoresReadErrors(del) {
		return nil, refuseUnreadable()
	}
	found, err := r.List(ctx, namespace, list)
	if err != nil {
		return nil, err
	}
	err = meta.EachListItem(found, func(item runtime.Object) error {
		obj, err := meta.Accessor(item)
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		if _, _, err := r.Delete(ctx, obj.GetNamespace(), obj.GetName(), del); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}
