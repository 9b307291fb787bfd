package quota

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	libquota "github.com/garboard/garboard/libs/quota"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
)

// Plugin returns the plugin ResourceQuota. document is its ResourceQuotaConfiguration, which may be
// empty.
func Plugin(objects admission.Objects, document []byte) (admission.Plugin, error) {
	limits, err := load(document)
	if err != nil {
		return admission.Plugin{}, err
	}
	return admission.Plugin{Validate: chargeQuota(objects, quotaCharger(objects), limits)}, nil
}

// quotaCharger returns a charger of the quotas that cfg can read and update.
func quotaCharger(objects admission.Objects) *Charger {
	kind := scheme.For[*corev1.ResourceQuota](objects.Table)
	return New(func(ctx context.Context, namespace, name string, change func(*corev1.ResourceQuota) (*corev1.ResourceQuota, error)) (*corev1.ResourceQuota, error) {
		return admission.As[*corev1.ResourceQuota](objects.Lookup.Update(ctx, kind, namespace, name, func(current scheme.Object) (scheme.Object, error) {
			q, err := admission.As[*corev1.ResourceQuota](current, nil)
			if err != nil {
				return nil, err
			}
			return change(q)
		}))
	})
}

// chargeQuota refuses what the quotas of its namespace don't allow, or what is limited and no quota
// covers, and charges the quotas with the rest.
func chargeQuota(objects admission.Objects, charger *Charger, limits []limited) func(context.Context, *admission.Request) error {
	return func(ctx context.Context, req *admission.Request) error {
		if req.Namespace == "" || req.Kind.Group == "" && req.Kind.Kind == "Namespace" || !charges(req) {
			return nil
		}
		quotas, err := admission.List[*corev1.ResourceQuota](ctx, objects, req.Namespace)
		if err != nil {
			return apierrors.NewInternalError(fmt.Errorf("error resolving quota: %w", err))
		}
		if len(quotas) == 0 && len(limits) == 0 {
			return nil
		}
		item := Item{Kind: req.Kind, Object: req.Object, Observed: req.Subresource == "status"}
		if req.Verb == admission.Update {
			item.Old = req.Old
		}
		if err := uncovered(limits, quotas, item, req); err != nil {
			return err
		}
		var undo func(context.Context)
		if req.DryRun {
			err = charger.Try(quotas, item)
		} else {
			undo, err = charger.Charge(ctx, quotas, item)
		}
		if undo != nil {
			req.OnUndo(undo)
		}
		if refusal := (*Refusal)(nil); errors.As(err, &refusal) {
			return admission.Forbidden(req, refusal)
		}
		return err
	}
}

// charges reports whether a write can raise the usage of a quota. Every new object can, and so can
// an update of a service or a claim, the resize of a pod, and an update that moves a pod between the
// scopes Terminating and NotTerminating.
func charges(req *admission.Request) bool {
	if req.Object == nil || !libquota.Counted(req.Kind) {
		return false
	}
	switch o := req.Object.(type) {
	case *corev1.Pod:
		if req.Verb == admission.Update && req.Subresource == "" {
			old, ok := req.Old.(*corev1.Pod)
			return ok && libquota.Terminating(old) != libquota.Terminating(o)
		}
	case *corev1.Service:
		return req.Subresource == ""
	case *corev1.PersistentVolumeClaim:
		if req.Subresource == "" {
			return true
		}
		old, ok := req.Old.(*corev1.PersistentVolumeClaim)
		return req.Subresource == "status" && ok && !old.Status.AllocatedResources.Storage().Equal(*o.Status.AllocatedResources.Storage())
	}
	return req.Verb == admission.Create && req.Subresource == "" || req.Verb == admission.Update && req.Subresource == "resize"
}
