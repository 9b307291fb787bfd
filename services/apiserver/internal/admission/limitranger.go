package admission

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/services/apiserver/internal/admission/limits"
)

// limitDefaults sets, in a new pod, the defaults of its namespace's limit ranges for containers
// that don't set their own.
func limitDefaults(cfg Config) func(context.Context, *Request) error {
	return func(ctx context.Context, req *Request) error {
		pod, ok := req.Object.(*corev1.Pod)
		if !ok || !limited(req) {
			return nil
		}
		ranges, err := limitRanges(ctx, cfg, req)
		for _, r := range ranges {
			limits.Default(r, pod)
		}
		return err
	}
}

// checkLimits refuses pods and claims outside the limit ranges of their namespace.
func checkLimits(cfg Config) func(context.Context, *Request) error {
	return func(ctx context.Context, req *Request) error {
		if !limited(req) {
			return nil
		}
		ranges, err := limitRanges(ctx, cfg, req)
		if err != nil {
			return err
		}
		for _, r := range ranges {
			switch o := req.Object.(type) {
			case *corev1.Pod:
				err = limits.CheckPod(r, o)
			case *corev1.PersistentVolumeClaim:
				err = limits.CheckClaim(r, o)
			}
			if err != nil {
				return forbidden(req, err)
			}
		}
		return nil
	}
}

// limited reports whether limit ranges apply to what req writes: a new pod, since its containers
// never change, or a claim that is not being deleted.
func limited(req *Request) bool {
	switch req.Object.(type) {
	case *corev1.Pod:
		return req.Verb == Create && req.Subresource == ""
	case *corev1.PersistentVolumeClaim:
		return req.Verb != Delete && req.Subresource == "" && (req.Old == nil || req.Old.GetDeletionTimestamp() == nil)
	}
	return false
}

// limitRanges returns the limit ranges of the request's namespace, sorted by name.
func limitRanges(ctx context.Context, cfg Config, req *Request) ([]*corev1.LimitRange, error) {
	ranges, err := list[*corev1.LimitRange](ctx, cfg, req.Namespace)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("unable to %s %v at this time because there was an error enforcing limit ranges: %w", req.Verb, req.Kind.Resource, err))
	}
	slices.SortFunc(ranges, func(a, b *corev1.LimitRange) int { return cmp.Compare(a.Name, b.Name) })
	return ranges, nil
}
