package storageversionmigrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/libs/scheme"
)

// page is the number of objects in memory.
const page = 500

// checkpoint writes into the status of a migration a revision that etcd has reached.
func (r *reconciler) checkpoint(ctx context.Context, m migration) (reconcile.Result, error) {
	kind := r.served(m.Spec.Resource)
	switch {
	case kind == nil:
		return r.absent(ctx, m, "resource does not exist in discovery")
	case kind.Virtual:
		return reconcile.Result{}, r.fail(ctx, m, fmt.Sprintf("resource %q does not support discovery operations: [update patch list]", kind.GroupVersionResource()))
	}
	// Only the revision counts. A list without a version is as new as etcd.
	list, _, err := r.list(ctx, kind, metav1.ListOptions{Limit: 1})
	if err != nil {
		return r.delay(m, fmt.Errorf("error getting latest resourceVersion for %s: %w", kind.GroupVersionResource(), err))
	}
	version := list.GetResourceVersion()
	if _, err := resourceversion.CompareResourceVersion(version, version); err != nil {
		return reconcile.Result{}, r.fail(ctx, m, fmt.Sprintf("latest resourceVersion for %s is not valid: %v", kind.GroupVersionResource(), err))
	}
	m.Status.ResourceVersion = version
	return reconcile.Result{}, r.write(ctx, m)
}

// tally counts the objects of a migration. Those of a page that was not read yet count as left, though some of them
// may be too new to need a rewrite.
type tally struct{ seen, unseen, settled int }

func (t tally) total() int { return t.seen + t.unseen }

func (t tally) left() int { return t.total() - t.settled }

// progress is the message of a migration that runs.
func (t tally) progress() string {
	switch text := "The migration is running"; {
	case t.total() == 0:
		return text
	case t.left() > 0:
		return text + fmt.Sprintf(", %d/%d objects not yet migrated", t.left(), t.total())
	default:
		return text + fmt.Sprintf(", %d objects verified migrated", t.total())
	}
}

// migrate patches all objects of a resource that are not newer than the checkpoint, page by page.
func (r *reconciler) migrate(ctx context.Context, m migration) (reconcile.Result, error) {
	kind := r.served(m.Spec.Resource)
	if kind == nil {
		return r.absent(ctx, m, unhandled+"unable to obtain GVR from discovery")
	}
	var count tally
	opts := metav1.ListOptions{Limit: page}
	for first := true; first || opts.Continue != ""; {
		if latest, found := r.migrations.Indexer().GetByKey(m.Name); !found || latest.UID != m.UID {
			return reconcile.Result{}, nil // It was deleted.
		}
		list, objects, err := r.list(ctx, kind, opts)
		if token := continued(err); token != "" {
			opts.Continue = token
			continue
		}
		if err != nil {
			return r.pause(ctx, m, count, fmt.Errorf("listing %s: %w", kind.GroupResource(), err))
		}
		first, opts.Continue, count.unseen = false, list.GetContinue(), 0
		if remaining := list.GetRemainingItemCount(); remaining != nil {
			count.unseen = int(*remaining)
		}
		count.seen += len(objects)
		for _, obj := range objects {
			err := r.rewrite(ctx, kind, obj, m.Status.ResourceVersion)
			switch {
			case err == nil:
				count.settled++
			case ctx.Err() != nil || !final(err):
				return r.pause(ctx, m, count, err)
			default:
				setRunning(m, count.progress())
				return reconcile.Result{}, r.fail(ctx, m, fmt.Sprintf("%d/%d not yet migrated. %s%v", count.left(), count.total(), unhandled, err))
			}
		}
	}
	setRunning(m, count.progress())
	meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{
		Type: string(storagemigrationv1.MigrationSucceeded), Status: metav1.ConditionTrue,
		Reason: "StorageVersionMigrationSucceeded", Message: "Migration completed",
	})
	r.logger.InfoContext(ctx, "storage version migration completed", "name", m.Name, "resource", m.Spec.Resource.String(), "objects", count.total())
	return reconcile.Result{}, r.write(ctx, m)
}

// rewrite patches an object so that the apiserver writes it in the form in which etcd holds new objects. There is
// nothing to do if the object is newer than the checkpoint, or has changed or gone since it was read.
func (r *reconciler) rewrite(ctx context.Context, kind *scheme.Kind, obj scheme.Object, checkpoint string) error {
	order, err := resourceversion.CompareResourceVersion(obj.GetResourceVersion(), checkpoint)
	if err != nil || order > 0 {
		return err
	}
	data, err := json.Marshal(map[string]any{
		"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind,
		"metadata": map[string]any{"uid": obj.GetUID(), "resourceVersion": obj.GetResourceVersion()},
	})
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	err = r.client.Do(ctx, client.Call{
		Verb: "patch", Kind: kind, Namespace: obj.GetNamespace(), Name: obj.GetName(),
		PatchType: types.MergePatchType, Patch: data, Options: &metav1.PatchOptions{FieldManager: name},
	}, nil)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// pause writes the cause of a delay into the status of a migration, which starts again later.
func (r *reconciler) pause(ctx context.Context, m migration, count tally, cause error) (reconcile.Result, error) {
	if ctx.Err() == nil && setRunning(m, count.progress()+"; transient error: "+cause.Error()) {
		if err := r.write(ctx, m); err != nil {
			return reconcile.Result{}, errors.Join(cause, err)
		}
	}
	return r.delay(m, fmt.Errorf("migrating %s: %w", m.Spec.Resource.String(), cause))
}

// delay lets a migration wait for as long as the apiserver asks, or for longer after each failure.
func (r *reconciler) delay(m migration, cause error) (reconcile.Result, error) {
	if seconds, ok := apierrors.SuggestsClientDelay(cause); ok {
		r.logger.Warn("storage version migration waits", "name", m.Name, "seconds", seconds, "err", cause)
		return reconcile.Result{RequeueAfter: max(time.Second, time.Duration(seconds)*time.Second)}, nil
	}
	return reconcile.Result{}, cause
}

// final reports whether an error of a patch would come again. Faults between here and the apiserver, and faults of the
// apiserver or of what it asks, pass.
func final(err error) bool {
	switch {
	case apierrors.ReasonForError(err) == metav1.StatusReasonUnknown && !errors.As(err, new(resourceversion.InvalidResourceVersion)):
		return false
	case apierrors.IsServerTimeout(err), apierrors.IsTooManyRequests(err), apierrors.IsServiceUnavailable(err),
		apierrors.IsInternalError(err), apierrors.IsTimeout(err):
		return false
	}
	return true
}

// list returns a page of the objects of a kind.
func (r *reconciler) list(ctx context.Context, kind *scheme.Kind, opts metav1.ListOptions) (metav1.ListInterface, []scheme.Object, error) {
	list := kind.NewList()
	if err := r.client.Do(ctx, client.Call{Verb: "list", Kind: kind, Options: &opts}, list); err != nil {
		return nil, nil, err
	}
	about, err := meta.ListAccessor(list)
	if err != nil {
		return nil, nil, fmt.Errorf("reading a list of %s: %w", kind.Resource, err)
	}
	var objects []scheme.Object
	err = meta.EachListItem(list, func(item runtime.Object) error {
		obj, ok := item.(scheme.Object)
		if !ok {
			return fmt.Errorf("reading a list of %s: a %T is no object", kind.Resource, item)
		}
		objects = append(objects, obj)
		return nil
	})
	return about, objects, err
}

// continued returns the token by which a list goes on whose next page etcd has compacted; empty if err is another one.
// What has changed since the first page is newer than the checkpoint.
func continued(err error) string {
	status := apierrors.APIStatus(nil)
	if !apierrors.IsResourceExpired(err) || !errors.As(err, &status) {
		return ""
	}
	answer := status.Status()
	return answer.Continue
}
