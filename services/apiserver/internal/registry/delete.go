package registry

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/registry/deletion"
)

var errChanged = errors.New("the object changed since it was read")

// Delete deletes an object: at once or, if it has finalizers or is deleted gracefully, by marking
// it with a deletionTimestamp. It returns the object's last state and whether the object is gone.
func (r *Resource) Delete(ctx context.Context, namespace, name string, opts metav1.DeleteOptions) (scheme.Object, bool, error) {
	return r.delete(ctx, deletion.One{Namespace: namespace, Name: name, Options: opts, Within: namespace})
}

func (r *Resource) delete(ctx context.Context, d deletion.One) (scheme.Object, bool, error) {
	if errs := metav1validation.ValidateDeleteOptions(&d.Options); len(errs) > 0 {
		return nil, false, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", errs)
	}
	if deletion.IgnoresReadErrors(d.Options) {
		obj, err := r.deleteUnreadable(ctx, d.Namespace, d.Name, d.Options)
		return obj, err == nil, err
	}
	if IsDryRun(d.Options.DryRun) {
		return r.dryDelete(ctx, &d)
	}
	var marked scheme.Object
	for {
		obj, gone, err := r.tryDelete(ctx, &d)
		switch {
		case errors.Is(err, errChanged):
			if obj != nil {
				marked = obj
			}
		case apierrors.IsNotFound(err) && obj != nil:
			return r.presentGone(obj, true)
		case apierrors.IsNotFound(err) && marked != nil:
			return r.presentGone(marked, true)
		case err != nil:
			return nil, false, r.rename(err)
		default:
			return r.presentGone(obj, gone)
		}
	}
}

// tryDelete is one attempt of delete. With an error it returns the object only if it has marked it for immediate
// removal. Another client may then be the first to remove it, as a pod's node agent may: that is the requested result.
func (r *Resource) tryDelete(ctx context.Context, d *deletion.One) (scheme.Object, bool, error) {
	var seen scheme.Object
	final := false
	marked, err := r.store.Update(ctx, r.stored, d.Namespace, d.Name, func(current scheme.Object) (scheme.Object, error) {
		seen = current
		obj, last, err := deletion.Mark(r.strategy, current, d.Options)
		final = last
		if admitErr := r.admitDelete(ctx, d, current, err); admitErr != nil {
			return nil, admitErr
		}
		return obj, err
	})
	switch {
	case errors.Is(err, deletion.ErrPending):
		return seen, false, nil
	case errors.Is(err, deletion.ErrNow):
	case err != nil:
		return nil, false, err
	case !final:
		return marked, false, nil
	default:
		seen = marked
	}
	gone, err := r.remove(ctx, d.Namespace, d.Name, seen)
	if err != nil {
		return marked, false, err
	}
	return gone, true, nil
}

// admitDelete shows the plugins the object to be deleted, unless marking it failed with err or
// found that there is nothing to do.
func (r *Resource) admitDelete(ctx context.Context, d *deletion.One, current scheme.Object, err error) error {
	if err != nil && !errors.Is(err, deletion.ErrNow) {
		return nil
	}
	req := d.Request(r.kind, r.strategy, current)
	if req.Old, err = r.present(current); err != nil {
		return err
	}
	return admit(ctx, r.admission, req)
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
	r.awaitObeyed(ctx, gone)
	r.deleteCompanions(ctx, gone)
	return gone, nil
}

func (r *Resource) dryDelete(ctx context.Context, d *deletion.One) (scheme.Object, bool, error) {
	current, err := r.store.Get(ctx, r.stored, d.Namespace, d.Name)
	if err != nil {
		return nil, false, r.rename(err)
	}
	obj, last, err := deletion.Mark(r.strategy, current, d.Options)
	if admitErr := r.admitDelete(ctx, d, current, err); admitErr != nil {
		return nil, false, admitErr
	}
	switch {
	case errors.Is(err, deletion.ErrNow):
		return r.presentGone(current, true)
	case errors.Is(err, deletion.ErrPending):
		return r.presentGone(current, false)
	case err != nil:
		return nil, false, err
	}
	return r.presentGone(obj, last)
}

// presentGone returns the last state of a deleted object in the form of the requested kind.
func (r *Resource) presentGone(obj scheme.Object, gone bool) (scheme.Object, bool, error) {
	shown, err := r.present(obj)
	return shown, gone && err == nil, err
}

// DeleteCollection deletes the objects that list selects, each as Delete does, and returns them as a list. An
// object that is already gone is not an error. Admission plugins see each object, but no name.
func (r *Resource) DeleteCollection(ctx context.Context, namespace string, del metav1.DeleteOptions, list metav1.ListOptions) (runtime.Object, error) {
	if deletion.IgnoresReadErrors(del) {
		return nil, deletion.RefuseUnreadable()
	}
	found, err := r.List(ctx, namespace, list)
	if err != nil {
		return nil, err
	}
	err = deletion.Each(ctx, found, func(obj metav1.Object) error {
		one := deletion.One{Namespace: obj.GetNamespace(), Name: obj.GetName(), Options: del, Within: namespace, Collection: true}
		_, _, err := r.delete(ctx, one)
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}
