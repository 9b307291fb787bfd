package eviction

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/fence"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/podcondition"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/policy/disruption"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
)

// errChanged reports that what an attempt has read has changed.
var errChanged = errors.New("what was read has changed")

// evictAttempts is how often an eviction retries with a pod that changed meanwhile; Kubernetes'
// number.
const evictAttempts = 20

// Evict deletes a pod if its disruption budget, if any, allows that, and charges the budget. Check
// and charge are one transaction, so that concurrent evictions never exceed the budget. opts are
// the request's. The rules and errors are those of Kubernetes' eviction subresource: 429 with the
// cause DisruptionBudget if the budget does not allow it now.
func Evict(ctx context.Context, reg *registry.Registry, namespace, name string, eviction *policyv1.Eviction, opts metav1.CreateOptions) error {
	pods := registry.Of[*corev1.Pod](reg)
	if err := checkEviction(namespace, name, eviction); err != nil {
		return err
	}
	del, err := evictionOptions(eviction, opts)
	if err != nil {
		return err
	}
	if err := pods.Admit(ctx, admission.Create, namespace, name, "eviction", eviction, registry.IsDryRun(del.DryRun)); err != nil {
		return err
	}
	// The rest is done by the eviction itself, for which the client needs no further rights.
	e := &evicting{pods: pods.WithoutAdmission(), budgets: registry.Of[*policyv1.PodDisruptionBudget](reg), namespace: namespace, name: name, opts: del}
	e.pinned = del.Preconditions != nil && del.Preconditions.ResourceVersion != nil
	for range evictAttempts {
		err = e.try(ctx)
		if !errors.Is(err, errChanged) {
			return err
		}
	}
	return pods.Modified(name)
}

func checkEviction(namespace, name string, eviction *policyv1.Eviction) error {
	switch {
	case eviction.Namespace != "" && eviction.Namespace != namespace:
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	case eviction.Name != name:
		return apierrors.NewBadRequest("name in URL does not match name in Eviction object")
	}
	eviction.Namespace = namespace
	return nil
}

// evictionOptions returns the options for deleting the pod. Either the request or the eviction may
// ask for a dry run.
func evictionOptions(eviction *policyv1.Eviction, opts metav1.CreateOptions) (metav1.DeleteOptions, error) {
	if eviction.DeleteOptions == nil {
		return metav1.DeleteOptions{DryRun: opts.DryRun}, nil
	}
	del := *eviction.DeleteOptions.DeepCopy()
	if len(del.DryRun) == 0 {
		del.DryRun = opts.DryRun
	} else if len(opts.DryRun) > 0 && !reflect.DeepEqual(opts.DryRun, del.DryRun) {
		return del, apierrors.NewBadRequest(fmt.Sprintf("Non-matching dry-run options in request and content: %v and %v", opts.DryRun, del.DryRun))
	}
	return del, nil
}

// evicting is one eviction.
type evicting struct {
	pods, budgets   *registry.Resource
	namespace, name string
	opts            metav1.DeleteOptions
	pinned          bool // to the client's resourceVersion
}

// try is one attempt; errChanged reports that what it read has changed.
func (e *evicting) try(ctx context.Context) error {
	obj, err := e.pods.Get(ctx, e.namespace, e.name)
	if err != nil {
		return err
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return apierrors.NewInternalError(fmt.Errorf("evicting a pod: the store returned a %T", obj))
	}
	if err := e.checkPreconditions(pod); err != nil {
		return err // before a budget is charged in vain
	}
	if disruption.Exempt(pod) {
		if disruption.Settled(pod) {
			return e.delete(ctx, nil)
		}
		// A pending pod that starts at this moment may be covered by a budget.
		return e.lost(e.delete(ctx, pod), errChanged)
	}
	budgets, err := e.covering(ctx, pod)
	switch {
	case err != nil:
		return err
	case len(budgets) == 0:
		return e.delete(ctx, nil)
	case len(budgets) > 1:
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
			Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
		}}
	case disruption.Free(pod, budgets[0]):
		return e.lost(e.delete(ctx, pod), disruption.Unsettled(budgets[0].Name))
	}
	if err := e.charge(ctx, budgets[0]); err != nil {
		return err
	}
	return e.delete(ctx, nil)
}

// lost returns instead if a deletion failed because the pod has changed, unless the client itself
// asked for a certain resourceVersion.
func (e *evicting) lost(err, instead error) error {
	if apierrors.IsConflict(err) && !fence.IsLost(err) && !e.pinned {
		return instead
	}
	return err
}

// covering returns the budgets that cover the pod now.
func (e *evicting) covering(ctx context.Context, pod *corev1.Pod) ([]*policyv1.PodDisruptionBudget, error) {
	listing, err := e.budgets.Read(ctx, e.namespace, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var budgets []*policyv1.PodDisruptionBudget
	for _, obj := range listing.Objects() {
		if budget, ok := obj.(*policyv1.PodDisruptionBudget); ok {
			budgets = append(budgets, budget)
		}
	}
	return disruption.Of(pod, budgets), nil
}

// charge takes one disruption from the budget as it is in etcd at that moment.
func (e *evicting) charge(ctx context.Context, seen *policyv1.PodDisruptionBudget) error {
	if registry.IsDryRun(e.opts.DryRun) {
		return disruption.Charge(seen.DeepCopy(), e.name, time.Now())
	}
	charge := e.budgets.Recorded(func(current scheme.Object) (scheme.Object, error) {
		budget, ok := current.(*policyv1.PodDisruptionBudget)
		if !ok {
			return nil, apierrors.NewInternalError(fmt.Errorf("charging a disruption budget: the store returned a %T", current))
		}
		if budget.UID != seen.UID {
			return nil, errChanged
		}
		return budget, disruption.Charge(budget, e.name, time.Now())
	})
	_, err := e.budgets.Amend(ctx, e.namespace, seen.Name, charge, false)
	if apierrors.IsNotFound(err) {
		return errChanged // The budget is gone; a 404 would tell the client that the pod is.
	}
	return err
}

// checkPreconditions compares the pod with the one that the client meant.
func (e *evicting) checkPreconditions(pod *corev1.Pod) error {
	p := e.opts.Preconditions
	if p == nil {
		return nil
	}
	conflict := func(format string, args ...any) error {
		return apierrors.NewConflict(corev1.Resource("Pod"), pod.Name, fmt.Errorf(format, args...))
	}
	if p.UID != nil && *p.UID != "" && *p.UID != pod.UID {
		return conflict("the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *p.UID, pod.UID)
	}
	if v := p.ResourceVersion; v != nil && *v != "" && *v != pod.ResourceVersion {
		return conflict("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *v, pod.ResourceVersion)
	}
	return nil
}

// delete marks the pod as evicted and deletes it. If as is not nil, it deletes the pod only in that
// state, and otherwise returns a conflict.
func (e *evicting) delete(ctx context.Context, as *corev1.Pod) error {
	opts := *e.opts.DeepCopy()
	pin := func(version string) {
		if opts.Preconditions == nil {
			opts.Preconditions = &metav1.Preconditions{}
		}
		opts.Preconditions.ResourceVersion = &version
	}
	if as != nil && !e.pinned {
		pin(as.ResourceVersion)
	}
	if !registry.IsDryRun(opts.DryRun) {
		told, err := e.markEvicted(ctx, opts)
		if err != nil {
			return err
		}
		if opts.Preconditions != nil && opts.Preconditions.ResourceVersion != nil {
			pin(told.GetResourceVersion())
		}
	}
	_, _, err := e.pods.Delete(ctx, e.namespace, e.name, opts)
	return err
}

// markEvicted sets the pod's condition DisruptionTarget.
func (e *evicting) markEvicted(ctx context.Context, opts metav1.DeleteOptions) (scheme.Object, error) {
	pinned := &evicting{opts: opts}
	return e.pods.Amend(ctx, e.namespace, e.name, func(current scheme.Object) (scheme.Object, error) {
		pod, ok := current.(*corev1.Pod)
		if !ok {
			return nil, apierrors.NewInternalError(fmt.Errorf("evicting a pod: the store returned a %T", current))
		}
		if err := pinned.checkPreconditions(pod); err != nil {
			return nil, err
		}
		podcondition.Set(pod, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting",
		})
		return pod, nil
	}, false)
}
