package fake

import (
	"fmt"
	"reflect"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/garboard/garboard/libs/scheme"
)

// defaultGrace is the grace period of a pod that sets none, in seconds (k8s.io/api/core/v1,
// DefaultTerminationGracePeriodSeconds in Kubernetes).
const defaultGrace int64 = 30

func fillMeta(obj scheme.Object) {
	if obj.GetUID() == "" {
		obj.SetUID(uuid.NewUUID())
	}
	if created := obj.GetCreationTimestamp(); created.IsZero() {
		now := metav1.Now()
		obj.SetCreationTimestamp(now.Rfc3339Copy())
	}
}

// prepareForCreate does what Kubernetes' strategies do to a new object.
func prepareForCreate(kind *scheme.Kind, obj scheme.Object) {
	obj.SetUID("")
	obj.SetCreationTimestamp(metav1.Time{})
	fillMeta(obj)
	obj.SetDeletionTimestamp(nil)
	obj.SetDeletionGracePeriodSeconds(nil)
	obj.SetGeneration(0)
	if hasGeneration(obj) {
		obj.SetGeneration(1)
	}
	switch o := obj.(type) {
	case *corev1.Node: // The node agent registers its node with a status.
	case *corev1.Namespace:
		o.Status = corev1.NamespaceStatus{Phase: corev1.NamespaceActive}
		if !slices.Contains(o.Spec.Finalizers, corev1.FinalizerKubernetes) {
			o.Spec.Finalizers = append(o.Spec.Finalizers, corev1.FinalizerKubernetes)
		}
	case *corev1.Pod:
		o.Status = corev1.PodStatus{Phase: corev1.PodPending}
	default:
		if kind.HasSubresource("status") {
			clearField(obj, "Status")
		}
	}
}

// prepareForUpdate restores the fields that an update of the object, or of a subresource, may not
// change.
func prepareForUpdate(kind *scheme.Kind, subresource string, current, next scheme.Object) error {
	switch subresource {
	case "":
		if kind.HasSubresource("status") {
			copyField(next, current, "Status")
		}
		if namespace, ok := next.(*corev1.Namespace); ok {
			namespace.Spec.Finalizers = slices.Clone(current.(*corev1.Namespace).Spec.Finalizers)
		}
	case "status":
		if !kind.HasSubresource("status") {
			return apierrors.NewMethodNotSupported(kind.GroupResource(), "update of status")
		}
		status := copyOf(next)
		meta := copyOf(current)
		reflect.ValueOf(next).Elem().Set(reflect.ValueOf(meta).Elem())
		copyField(next, status, "Status")
		switch next.(type) {
		case *appsv1.Deployment, *corev1.PersistentVolumeClaim:
			// The Deployment controller writes the revision annotation with the status, and the one that
			// expands volumes that of the resizer. Kubernetes' strategies allow it.
			next.SetAnnotations(status.GetAnnotations())
		}
		return nil
	case "finalize":
		namespace, ok := next.(*corev1.Namespace)
		if !ok {
			return apierrors.NewMethodNotSupported(kind.GroupResource(), "update of finalize")
		}
		finalizers := slices.Clone(namespace.Spec.Finalizers)
		current.(*corev1.Namespace).DeepCopyInto(namespace)
		namespace.Spec.Finalizers = finalizers
		return nil
	case "approval":
		request, ok := next.(*certificatesv1.CertificateSigningRequest)
		if !ok {
			return apierrors.NewMethodNotSupported(kind.GroupResource(), "update of approval")
		}
		conditions := request.Status.Conditions
		current.(*certificatesv1.CertificateSigningRequest).DeepCopyInto(request)
		request.Status.Conditions = conditions
		for i := range conditions {
			if conditions[i].LastUpdateTime.IsZero() {
				conditions[i].LastUpdateTime = metav1.Now().Rfc3339Copy()
			}
		}
		return nil
	default:
		return apierrors.NewMethodNotSupported(kind.GroupResource(), "update of "+subresource)
	}
	next.SetUID(current.GetUID())
	next.SetCreationTimestamp(current.GetCreationTimestamp())
	next.SetDeletionTimestamp(current.GetDeletionTimestamp())
	next.SetDeletionGracePeriodSeconds(current.GetDeletionGracePeriodSeconds())
	next.SetSelfLink("")
	next.SetGeneration(current.GetGeneration())
	if hasGeneration(next) && specChanged(current, next) {
		next.SetGeneration(current.GetGeneration() + 1)
	}
	return nil
}

func hasGeneration(obj scheme.Object) bool {
	switch obj.(type) {
	case *appsv1.Deployment, *appsv1.ReplicaSet, *appsv1.StatefulSet, *appsv1.DaemonSet, *corev1.ReplicationController, *corev1.Pod,
		*policyv1.PodDisruptionBudget, *admissionregistrationv1.ValidatingAdmissionPolicy, *autoscalingv2.HorizontalPodAutoscaler:
		return true
	}
	return false
}

// specChanged reports whether the generation rises. A Deployment's also rises when its annotations
// change (Kubernetes, pkg/registry/apps/deployment/strategy.go).
func specChanged(current, next scheme.Object) bool {
	if _, ok := next.(*appsv1.Deployment); ok && !equality.Semantic.DeepEqual(current.GetAnnotations(), next.GetAnnotations()) {
		return true
	}
	return !equality.Semantic.DeepEqual(field(current, "Spec").Interface(), field(next, "Spec").Interface())
}

func field(obj scheme.Object, name string) reflect.Value {
	return reflect.ValueOf(obj).Elem().FieldByName(name)
}

func clearField(obj scheme.Object, name string) {
	if f := field(obj, name); f.IsValid() {
		f.SetZero()
	}
}

func copyField(to, from scheme.Object, name string) {
	if f := field(to, name); f.IsValid() {
		f.Set(field(copyOf(from), name))
	}
}

// done reports whether an object that is being deleted has nothing left to wait for.
func done(obj scheme.Object) bool {
	if obj.GetDeletionTimestamp() == nil || len(obj.GetFinalizers()) > 0 {
		return false
	}
	if grace := obj.GetDeletionGracePeriodSeconds(); grace != nil && *grace > 0 {
		return false
	}
	if namespace, ok := obj.(*corev1.Namespace); ok {
		return len(namespace.Spec.Finalizers) == 0
	}
	return true
}

// graceOf returns how long the object may take to terminate, in seconds.
func graceOf(obj scheme.Object, opts metav1.DeleteOptions) int64 {
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return 0
	}
	switch {
	case opts.GracePeriodSeconds != nil:
		return max(*opts.GracePeriodSeconds, 0)
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		return *pod.Spec.TerminationGracePeriodSeconds
	default:
		return defaultGrace
	}
}

// finalizersFor returns the finalizers that an object has after a deletion with the given
// propagation (Kubernetes, apiserver's registry/generic/registry/store.go,
// deletionFinalizersForGarbageCollection).
func finalizersFor(obj scheme.Object, opts metav1.DeleteOptions) ([]string, error) {
	orphan := slices.Contains(obj.GetFinalizers(), metav1.FinalizerOrphanDependents)
	foreground := slices.Contains(obj.GetFinalizers(), metav1.FinalizerDeleteDependents)
	switch {
	//nolint:staticcheck // The field is deprecated but still served.
	case opts.OrphanDependents != nil:
		orphan, foreground = *opts.OrphanDependents, false
	case opts.PropagationPolicy != nil:
		switch *opts.PropagationPolicy {
		case metav1.DeletePropagationForeground:
			orphan, foreground = false, true
		case metav1.DeletePropagationOrphan:
			orphan, foreground = true, false
		case metav1.DeletePropagationBackground:
			orphan, foreground = false, false
		default:
			return nil, apierrors.NewBadRequest(fmt.Sprintf("invalid propagation policy %q", *opts.PropagationPolicy))
		}
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
	return finalizers, nil
}
