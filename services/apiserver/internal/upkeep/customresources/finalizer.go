package customresources

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
)

const (
	// emptyPatience is how long one attempt waits for the objects of a kind to go; Kubernetes' minute.
	emptyPatience = time.Minute
	emptyPause    = time.Second
	// finalizations is how many definitions are emptied at a time, as in Kubernetes.
	finalizations = 5
	retryLargest  = time.Minute
)

// begin empties a definition that is being deleted, unless that goes on already. The goroutine ends with ctx;
// Run waits for it.
func (k *Keeper) begin(ctx context.Context, c *crd) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.finalizing[c.UID] {
		return
	}
	k.finalizing[c.UID] = true
	k.ended.Go(func() {
		k.finalizeOnce(ctx, c.Name, c.UID)
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.finalizing, c.UID)
	})
}

// finalizeOnce tries to empty a definition until it is gone or ctx ends.
func (k *Keeper) finalizeOnce(ctx context.Context, name string, uid types.UID) {
	delays := backoff.Doubling(retryPause/2, retryLargest/2, 2)
	for {
		obj, _ := k.cfg.Feeds.Of(k.kind).Cached("", name)
		c, ok := obj.(*crd)
		if !ok || c.UID != uid || !apihelpers.CRDHasFinalizer(c, apiextensionsv1.CustomResourceCleanupFinalizer) {
			return
		}
		err := k.finalize(ctx, c)
		if err != nil && ctx.Err() == nil {
			k.cfg.Logger.WarnContext(ctx, "cannot delete the custom resources of a definition yet", "name", name, "err", err)
		}
		if !backoff.Sleep(ctx, delays.Step()) {
			return
		}
	}
}

// finalize deletes the objects of a definition that is being deleted, and lets the definition go when there
// are none. It returns an error if that is not so yet. Every apiserver does the same at the same time, and the
// watch cache of a slower one still has the definition after a faster one has let it go: that is no error.
func (k *Keeper) finalize(ctx context.Context, c *crd) error {
	if err := k.letGo(ctx, c); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}

// letGo does what finalize does, and returns the API error NotFound if the definition is gone.
func (k *Keeper) letGo(ctx context.Context, c *crd) error {
	select {
	case k.slots <- struct{}{}:
		defer func() { <-k.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if _, err := k.judge(ctx, c, condition{
		Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionTrue, Reason: "InstanceDeletionInProgress",
		Message: "CustomResource deletion is in progress",
	}); err != nil {
		return err
	}
	verdict := k.empty(ctx, c)
	present, err := k.judge(ctx, c, verdict)
	switch {
	case err != nil:
		return err
	case verdict.Status == apiextensionsv1.ConditionTrue:
		return errors.New(verdict.Message)
	}
	_, err = k.cfg.Registry.Resource(k.kind).Update(ctx, "", c.Name, func(current scheme.Object) (scheme.Object, error) {
		if current.GetUID() != present.GetUID() {
			return nil, apierrors.NewNotFound(k.kind.GroupResource(), c.Name)
		}
		next := current.DeepCopyObject().(*crd)
		next.Finalizers = slices.DeleteFunc(next.Finalizers, func(name string) bool { return name == apiextensionsv1.CustomResourceCleanupFinalizer })
		return next, nil
	}, registry.UpdateOptions{})
	return err
}

// judge sets a condition of a definition, whatever else has changed since it was read.
func (k *Keeper) judge(ctx context.Context, c *crd, verdict condition) (scheme.Object, error) {
	return k.cfg.Registry.Resource(k.kind).Update(ctx, "", c.Name, func(current scheme.Object) (scheme.Object, error) {
		if current.GetUID() != c.UID {
			return nil, apierrors.NewNotFound(k.kind.GroupResource(), c.Name)
		}
		next := current.DeepCopyObject().(*crd)
		setCondition(next, verdict)
		return next, nil
	}, registry.UpdateOptions{Subresource: "status"})
}

// empty deletes all objects of a definition and returns the condition Terminating: false when they are gone.
func (k *Keeper) empty(ctx context.Context, c *crd) condition {
	verdict := func(status apiextensionsv1.ConditionStatus, reason, message string) condition {
		return condition{Type: apiextensionsv1.Terminating, Status: status, Reason: reason, Message: message}
	}
	resource := k.resource(c)
	if resource == nil {
		return verdict(apiextensionsv1.ConditionFalse, "NeverEstablished", "resource was never established")
	}
	// Kubernetes asks neither webhooks nor policies here.
	if _, err := resource.WithoutAdmission().DeleteCollection(ctx, "", metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return verdict(apiextensionsv1.ConditionTrue, "InstanceDeletionFailed", fmt.Sprintf("could not issue all deletes: %v", err))
	}
	deadline := time.Now().Add(emptyPatience)
	for {
		found, err := resource.Read(ctx, "", metav1.ListOptions{Limit: 1})
		if err == nil && len(found.Items) == 0 && len(found.Unreadable) == 0 {
			return verdict(apiextensionsv1.ConditionFalse, "InstanceDeletionCompleted", "removed all instances")
		}
		if err == nil {
			err = errors.New("some are still there")
		}
		if time.Now().After(deadline) || !backoff.Sleep(ctx, backoff.Around(emptyPause)) {
			return verdict(apiextensionsv1.ConditionTrue, "InstanceDeletionCheck", fmt.Sprintf("could not confirm zero CustomResources remaining: %v", err))
		}
	}
}

// resource returns the operations on the stored version of a definition; nil if it is not installed.
func (k *Keeper) resource(c *crd) *registry.Resource {
	for _, version := range c.Spec.Versions {
		kind := k.cfg.Catalog.Table().Kind(apiVersionKind(c, version.Name))
		if version.Storage && kind != nil && kind.Custom {
			return k.cfg.Registry.Resource(kind)
		}
	}
	return nil
}
