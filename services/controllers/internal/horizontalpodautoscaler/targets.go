package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
)

// target is what an autoscaler scales.
type target struct {
	kind  *scheme.Kind
	scale *autoscalingv1.Scale
}

// Resource returns the resource that serves a kind, of those that a table has.
func Resource(table *scheme.Table) func(schema.GroupKind) (schema.GroupResource, error) {
	return func(of schema.GroupKind) (schema.GroupResource, error) {
		kinds, err := kindsOf(table, of)
		if err != nil {
			return schema.GroupResource{}, err
		}
		return kinds[0].GroupResource(), nil
	}
}

// kindsOf returns the served versions of a kind; at least one unless there is an error.
func kindsOf(table *scheme.Table, of schema.GroupKind) ([]*scheme.Kind, error) {
	var kinds []*scheme.Kind
	for _, kind := range scheme.Served(table.Kinds()) {
		if kind.GroupKind() == of {
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) == 0 {
		return nil, &meta.NoKindMatchError{GroupKind: of}
	}
	return kinds, nil
}

// target reads the scale of what the autoscaler targets.
func (p *pass) target(ctx context.Context) (*target, error) {
	ref := p.hpa.Spec.ScaleTargetRef
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil, specError{fmt.Errorf("invalid API version in scale target reference: %w", p.unreadable(err))}
	}
	kinds, err := kindsOf(p.client.Table(), schema.GroupKind{Group: gv.Group, Kind: ref.Kind})
	if err != nil {
		return nil, fmt.Errorf("unable to determine resource for scale target reference: %w", p.unreadable(err))
	}
	var first error
	for _, kind := range kinds {
		scale, err := p.readScale(ctx, kind)
		if err == nil {
			return &target{kind, scale}, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, fmt.Errorf("failed to query scale subresource for %s: %w", p.reference(), p.unreadable(first))
}

// unreadable tells of an error that keeps the controller from reading the scale, and returns it.
func (p *pass) unreadable(err error) error {
	p.warn("FailedGetScale", "%s", err)
	p.set(autoscalingv2.AbleToScale, corev1.ConditionFalse, "FailedGetScale", "the HPA controller was unable to get the target's current scale: %v", err)
	return err
}

func (p *pass) readScale(ctx context.Context, kind *scheme.Kind) (*autoscalingv1.Scale, error) {
	return p.callScale(ctx, client.Call{Verb: "get", Kind: kind, Options: &metav1.GetOptions{}}, nil)
}

// attempts is how often the scale is written if others write the target at the same time, after a pause each.
func attempts() wait.Backoff {
	return wait.Backoff{Steps: 5, Duration: 10 * time.Millisecond, Factor: 1, Jitter: 0.1}
}

// writeScale sets the number of replicas in a target's scale.
func (p *pass) writeScale(ctx context.Context, t *target, replicas int32) error {
	var fault error
	err := wait.ExponentialBackoffWithContext(ctx, attempts(), func(ctx context.Context) (bool, error) {
		t.scale.Spec.Replicas = replicas
		_, fault = p.callScale(ctx, client.Call{Verb: "update", Kind: t.kind, Options: &metav1.UpdateOptions{}}, t.scale)
		if !apierrors.IsConflict(fault) {
			return true, fault
		}
		if latest, err := p.readScale(ctx, t.kind); err == nil {
			t.scale = latest
		}
		return false, nil
	})
	if wait.Interrupted(err) && fault != nil {
		return fault
	}
	return err
}

// callScale reads or, with a body, writes the scale of the autoscaler's target.
func (p *pass) callScale(ctx context.Context, call client.Call, body *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
	call.Namespace, call.Name, call.Subresource = p.hpa.Namespace, p.hpa.Spec.ScaleTargetRef.Name, "scale"
	scale := &autoscalingv1.Scale{}
	if !call.Kind.Custom {
		if body != nil {
			call.Body = body
		}
		return scale, p.client.Do(ctx, call, scale)
	}
	// Custom kinds are called without Go types.
	if body != nil {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(body)
		if err != nil {
			return nil, fmt.Errorf("encoding the scale: %w", err)
		}
		sent := &unstructured.Unstructured{Object: fields}
		sent.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
		call.Body = sent
	}
	answer := &unstructured.Unstructured{}
	if err := p.client.Do(ctx, call, answer); err != nil {
		return nil, err
	}
	if got := answer.GroupVersionKind(); got != autoscalingv1.SchemeGroupVersion.WithKind("Scale") {
		return nil, errors.New("received an object from a /scale endpoint which is not a Scale: " + got.String())
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(answer.Object, scale); err != nil {
		return nil, fmt.Errorf("reading the scale: %w", err)
	}
	return scale, nil
}
