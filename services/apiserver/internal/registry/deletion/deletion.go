// Package deletion decides what a deletion makes of an object, by Kubernetes' rules: whether it goes at
// once, or stays for a while with a deletionTimestamp.
package deletion

import (
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// What Mark reports of an object that it does not change.
var (
	ErrNow     = errors.New("nothing holds back the deletion")
	ErrPending = errors.New("the object is being deleted already")
)

// Mark returns current as a deletion with opts leaves it, and whether to remove it right after. ErrNow
// reports that it needs no marking, ErrPending that there is nothing to do; other errors are API
// errors. The rules are those of Kubernetes' BeforeDelete and
// updateForGracefulDeletionAndFinalizers.
func Mark(kind *kinds.Definition, current scheme.Object, opts metav1.DeleteOptions) (obj scheme.Object, last bool, err error) {
	if err := checkPreconditions(kind, current, opts.Preconditions); err != nil {
		return nil, false, err
	}
	obj, ok := current.DeepCopyObject().(scheme.Object)
	if !ok {
		return nil, false, apierrors.NewInternalError(fmt.Errorf("copying a %T: the copy has no metadata", current))
	}
	now := metav1.Now().Rfc3339Copy()
	if kind.Held != nil {
		if obj.GetDeletionTimestamp() == nil {
			obj.SetDeletionTimestamp(&now)
			kind.Terminating(obj)
			obj.SetFinalizers(collectorFinalizers(kind, obj, opts))
			return obj, false, nil
		}
		if kind.Held(obj) {
			return nil, false, ErrPending
		}
	}
	graceful, err := markGraceful(kind, obj, opts, now)
	if err != nil {
		return nil, false, err
	}
	obj.SetFinalizers(collectorFinalizers(kind, obj, opts))
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
	return nil, false, ErrNow
}

// markGraceful sets the time at which obj is to be gone and returns the seconds until then; nil if
// obj is not deleted gracefully.
func markGraceful(kind *kinds.Definition, obj scheme.Object, opts metav1.DeleteOptions, now metav1.Time) (*int64, error) {
	opts = withoutNegative(opts)
	if kind.Grace == nil {
		return nil, nil
	}
	if obj.GetDeletionTimestamp() == nil {
		period := kind.Grace(obj, &opts)
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
		return nil, ErrPending // a grace period can only be shortened
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

func checkPreconditions(kind *kinds.Definition, current scheme.Object, p *metav1.Preconditions) error {
	if p == nil {
		return nil
	}
	// Kubernetes names the kind here, not the resource (apiserver, registry/rest.BeforeDelete).
	of := schema.GroupResource{Group: kind.Group, Resource: kind.GroupVersionKind.Kind}
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
func collectorFinalizers(kind *kinds.Definition, obj scheme.Object, opts metav1.DeleteOptions) []string {
	orphan := slices.Contains(obj.GetFinalizers(), metav1.FinalizerOrphanDependents)
	foreground := !orphan && slices.Contains(obj.GetFinalizers(), metav1.FinalizerDeleteDependents)
	orphan = orphan || kind.Orphans && !foreground
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

// Emptied reports whether an update leaves nothing that holds back the removal of a deleted object.
func Emptied(kind *kinds.Definition, obj, old scheme.Object) bool {
	if len(obj.GetFinalizers()) > 0 || old.GetDeletionTimestamp() == nil {
		return false
	}
	if grace := old.GetDeletionGracePeriodSeconds(); grace != nil && *grace != 0 {
		return false
	}
	return kind.Held == nil || !kind.Held(obj)
}
