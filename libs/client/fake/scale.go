package fake

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
)

// scaleOf returns an object's scale. That of a custom object is in spec.replicas, status.replicas and
// status.selector.
func scaleOf(obj scheme.Object) (*autoscalingv1.Scale, error) {
	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{
		Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID(),
		ResourceVersion: obj.GetResourceVersion(), CreationTimestamp: obj.GetCreationTimestamp(),
	}}
	scale.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
	var replicas *int32
	var selector *metav1.LabelSelector
	switch o := obj.(type) {
	case *appsv1.Deployment:
		replicas, selector, scale.Status.Replicas = o.Spec.Replicas, o.Spec.Selector, o.Status.Replicas
	case *appsv1.ReplicaSet:
		replicas, selector, scale.Status.Replicas = o.Spec.Replicas, o.Spec.Selector, o.Status.Replicas
	case *appsv1.StatefulSet:
		replicas, selector, scale.Status.Replicas = o.Spec.Replicas, o.Spec.Selector, o.Status.Replicas
	case *corev1.ReplicationController:
		scale.Spec.Replicas, scale.Status.Replicas = 1, o.Status.Replicas
		if o.Spec.Replicas != nil {
			scale.Spec.Replicas = *o.Spec.Replicas
		}
		scale.Status.Selector = labels.SelectorFromSet(o.Spec.Selector).String()
		return scale, nil
	case *unstructured.Unstructured:
		return customScale(o, scale)
	default:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("a %T has no scale", obj))
	}
	scale.Spec.Replicas = 1
	if replicas != nil {
		scale.Spec.Replicas = *replicas
	}
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("reading the selector of %s: %w", obj.GetName(), err))
	}
	scale.Status.Selector = s.String()
	return scale, nil
}

func customScale(obj *unstructured.Unstructured, scale *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
	replicas, _, err := unstructured.NestedInt64(obj.Object, "spec", "replicas")
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	now, _, err := unstructured.NestedInt64(obj.Object, "status", "replicas")
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	scale.Spec.Replicas, scale.Status.Replicas = int32(replicas), int32(now)
	scale.Status.Selector, _, err = unstructured.NestedString(obj.Object, "status", "selector")
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return scale, nil
}

// asAnswered returns a scale as a client of the kind decodes it: without a Go type if the kind is custom.
func asAnswered(kind *scheme.Kind, scale *autoscalingv1.Scale) (runtime.Object, error) {
	if !kind.Custom {
		return scale, nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(scale)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return &unstructured.Unstructured{Object: fields}, nil
}

// scaleIn returns the scale that a call sends.
func scaleIn(call client.Call) (*autoscalingv1.Scale, error) {
	switch sent := call.Body.(type) {
	case *autoscalingv1.Scale:
		return sent, nil
	case *unstructured.Unstructured:
		scale := &autoscalingv1.Scale{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(sent.Object, scale); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return scale, nil
	default:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("an update of a scale sends a %T", call.Body))
	}
}

func (c *Client) updateScale(call client.Call, current scheme.Object) (runtime.Object, error) {
	scale, err := scaleIn(call)
	if err != nil {
		return nil, err
	}
	next := copyOf(current)
	replicas := scale.Spec.Replicas
	switch o := next.(type) {
	case *appsv1.Deployment:
		o.Spec.Replicas = &replicas
	case *appsv1.ReplicaSet:
		o.Spec.Replicas = &replicas
	case *appsv1.StatefulSet:
		o.Spec.Replicas = &replicas
	case *corev1.ReplicationController:
		o.Spec.Replicas = &replicas
	case *unstructured.Unstructured:
		if err := unstructured.SetNestedField(o.Object, int64(replicas), "spec", "replicas"); err != nil {
			return nil, apierrors.NewInternalError(err)
		}
	default:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("a %T has no scale", current))
	}
	next.SetResourceVersion(scale.ResourceVersion)
	if scale.UID != "" {
		next.SetUID(scale.UID)
	}
	written, err := c.replace(call.Kind, "", current, next, false)
	if err != nil {
		return nil, err
	}
	if scale, err = scaleOf(written.(scheme.Object)); err != nil {
		return nil, err
	}
	return asAnswered(call.Kind, scale)
}
