package limits

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
)

// Plugin returns the plugin LimitRanger.
func Plugin(objects admission.Objects) admission.Plugin {
	return admission.Plugin{Mutate: limitDefaults(objects), Validate: checkLimits(objects)}
}

// limitDefaults sets, in a new or resized pod, the defaults of its namespace's limit ranges for
// containers that don't set their own.
func limitDefaults(objects admission.Objects) func(context.Context, *admission.Request) error {
	return func(ctx context.Context, req *admission.Request) error {
		pod, ok := req.Object.(*corev1.Pod)
		if !ok || !limited(req) {
			return nil
		}
		ranges, err := limitRanges(ctx, objects, req)
		for _, r := range ranges {
			setDefaults(r, pod)
		}
		return err
	}
}

// checkLimits refuses pods and claims outside the limit ranges of their namespace.
func checkLimits(objects admission.Objects) func(context.Context, *admission.Request) error {
	return func(ctx context.Context, req *admission.Request) error {
		if !limited(req) {
			return nil
		}
		ranges, err := limitRanges(ctx, objects, req)
		if err != nil {
			return err
		}
		for _, r := range ranges {
			switch o := req.Object.(type) {
			case *corev1.Pod:
				err = checkPod(r, o)
			case *corev1.PersistentVolumeClaim:
				err = checkClaim(r, o)
			}
			if err != nil {
				return admission.Forbidden(req, err)
			}
		}
		return nil
	}
}

// limited reports whether limit ranges apply to what req writes: a new pod, a pod that is resized,
// since nothing else changes the resources of its containers, or a claim. They don't apply to what
// is being deleted.
func limited(req *admission.Request) bool {
	if req.Old != nil && req.Old.GetDeletionTimestamp() != nil {
		return false
	}
	switch req.Object.(type) {
	case *corev1.Pod:
		return req.Verb == admission.Create && req.Subresource == "" || req.Verb == admission.Update && req.Subresource == "resize"
	case *corev1.PersistentVolumeClaim:
		return req.Verb != admission.Delete && req.Subresource == ""
	}
	return false
}

// limitRanges returns the limit ranges of the request's namespace, sorted by name.
func limitRanges(ctx context.Context, objects admission.Objects, req *admission.Request) ([]*corev1.LimitRange, error) {
	ranges, err := admission.List[*corev1.LimitRange](ctx, objects, req.Namespace)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("unable to %s %v at this time because there was an error enforcing limit ranges: %w", req.Verb, req.Kind.Resource, err))
	}
	slices.SortFunc(ranges, func(a, b *corev1.LimitRange) int { return cmp.Compare(a.Name, b.Name) })
	return ranges, nil
}
