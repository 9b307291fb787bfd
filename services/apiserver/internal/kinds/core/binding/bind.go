package binding

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/podcondition"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
)

// Bind assigns a pod of pods to the node that binding names, once. The binding must have the pod's
// name. A pod that has a node, is being deleted or has scheduling gates is refused with a conflict.
// Bind sets the pod's condition PodScheduled, copies the binding's labels and annotations, and
// returns the resulting pod. A dry run does everything except write.
func Bind(ctx context.Context, pods *registry.Resource, namespace, name string, binding *corev1.Binding, opts metav1.CreateOptions) (scheme.Object, error) {
	if err := checkBinding(namespace, name, binding); err != nil {
		return nil, err
	}
	if err := pods.Admit(ctx, admission.Create, namespace, name, "binding", binding, registry.IsDryRun(opts.DryRun)); err != nil {
		return nil, err
	}
	bind := func(current scheme.Object) (scheme.Object, error) {
		pod, ok := current.(*corev1.Pod)
		if !ok {
			return nil, apierrors.NewMethodNotSupported(pods.Kind().GroupResource(), "bind")
		}
		if err := checkBindable(pod, binding); err != nil {
			return nil, apierrors.NewConflict(corev1.Resource("pods/binding"), name, err)
		}
		pod.Spec.NodeName = binding.Target.Name
		pod.Status.NominatedNodeName = ""
		if len(binding.Annotations) > 0 {
			if pod.Annotations == nil {
				pod.Annotations = map[string]string{}
			}
			maps.Copy(pod.Annotations, binding.Annotations)
		}
		if len(binding.Labels) > 0 {
			if pod.Labels == nil {
				pod.Labels = map[string]string{}
			}
			maps.Copy(pod.Labels, binding.Labels)
		}
		podcondition.Set(pod, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue})
		return pod, nil
	}
	return pods.Amend(ctx, namespace, name, bind, registry.IsDryRun(opts.DryRun))
}

func checkBinding(namespace, name string, binding *corev1.Binding) error {
	if binding.Namespace != "" && binding.Namespace != namespace {
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	if binding.Name != name {
		return apierrors.NewBadRequest("name in URL does not match name in Binding object")
	}
	var errs field.ErrorList
	if kind := binding.Target.Kind; kind != "" && kind != "Node" {
		errs = append(errs, field.NotSupported(field.NewPath("target", "kind"), kind, []string{"Node", "<empty>"}))
	}
	if binding.Target.Name == "" {
		errs = append(errs, field.Required(field.NewPath("target", "name"), ""))
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Binding").GroupKind(), name, errs)
	}
	return nil
}

func checkBindable(pod *corev1.Pod, binding *corev1.Binding) error {
	switch {
	case binding.UID != "" && binding.UID != pod.UID:
		return registry.PreconditionFailed("UID", binding.UID, pod.UID)
	case binding.ResourceVersion != "" && binding.ResourceVersion != pod.ResourceVersion:
		return registry.PreconditionFailed("ResourceVersion", binding.ResourceVersion, pod.ResourceVersion)
	case pod.DeletionTimestamp != nil:
		return fmt.Errorf("pod %s is being deleted, cannot be assigned to a host", pod.Name)
	case pod.Spec.NodeName != "":
		return fmt.Errorf("pod %v is already assigned to node %q", pod.Name, pod.Spec.NodeName)
	case len(pod.Spec.SchedulingGates) > 0:
		return fmt.Errorf("pod %v has non-empty .spec.schedulingGates", pod.Name)
	}
	return nil
}
