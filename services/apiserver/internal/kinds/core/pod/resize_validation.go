package pod

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/podspec"
)

const onlyComputing = "only cpu and memory resources are mutable"

// validateResize validates a change of a running pod's resources; before and after are the pod's
// QoS classes. CPU and memory may change, but nothing else may, the class must stay the same, and
// the node must support resizing.
func validateResize(pod, old *corev1.Pod, before, after corev1.PodQOSClass) field.ErrorList {
	path := field.NewPath("spec")
	errs := podspec.MetadataAndSpec(pod, old)
	if _, ok := old.Annotations[corev1.MirrorPodAnnotationKey]; ok {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods cannot be resized")}
	}
	if old.Spec.OS != nil && old.Spec.OS.Name == corev1.Windows {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "windows pods cannot be resized")}
	}
	if before != after {
		errs = append(errs, field.Invalid(path, after, "Pod QOS Class may not change as a result of resizing"))
	}
	if !resizable(old) {
		errs = append(errs, field.Forbidden(path, "Pod running on node without support for resize"))
	}
	same := pod.Spec.DeepCopy()
	errs = append(errs, resizedPod(same, &old.Spec, path)...)
	if wrong := sameContainers(&pod.Spec, &old.Spec, path); len(wrong) > 0 {
		return append(errs, wrong...)
	}
	for i := range old.Spec.InitContainers {
		at := path.Child("initContainers").Index(i)
		errs = append(errs, resizedInit(&same.InitContainers[i], &old.Spec.InitContainers[i], at)...)
	}
	for i := range old.Spec.Containers {
		now, was, at := &same.Containers[i], &old.Spec.Containers[i], path.Child("containers").Index(i).Child("resources")
		errs = append(errs, removed(&now.Resources, &was.Resources, "resource", at)...)
		withoutResize(&now.Resources, &was.Resources)
		if !apiequality.Semantic.DeepEqual(now, was) {
			errs = append(errs, field.Forbidden(path, onlyComputing))
		}
	}
	if len(errs) == 0 && !apiequality.Semantic.DeepEqual(*same, old.Spec) {
		errs = append(errs, field.Forbidden(path, onlyComputing))
	}
	return errs
}

// resizable reports whether the node of a pod that has started there reports its containers'
// resources: only such nodes can resize them.
func resizable(p *corev1.Pod) bool {
	for _, status := range p.Status.ContainerStatuses {
		if status.State.Running != nil {
			return status.Resources != nil
		}
	}
	return true
}

func sameContainers(spec, old *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, list := range []struct {
		name     string
		now, was []corev1.Container
	}{{"containers", spec.Containers, old.Containers}, {"initContainers", spec.InitContainers, old.InitContainers}} {
		at := path.Child(list.name)
		if len(list.now) != len(list.was) {
			errs = append(errs, field.Forbidden(at, list.name+" may not be added or removed on resize"))
			continue
		}
		for i := range list.was {
			if list.now[i].Name != list.was[i].Name {
				errs = append(errs, field.Forbidden(at.Index(i).Child("name"), list.name+" may not be renamed or reordered on resize"))
			}
		}
	}
	return errs
}

// resizedPod checks the change of pod-level resources, and reverts it.
func resizedPod(spec, old *corev1.PodSpec, path *field.Path) field.ErrorList {
	amounts := func(r *corev1.ResourceRequirements) bool { return r != nil && len(r.Requests)+len(r.Limits) > 0 }
	if !amounts(old.Resources) && !amounts(spec.Resources) {
		return nil
	}
	if spec.Resources == nil {
		return field.ErrorList{field.Forbidden(path.Child("resources"), "pod-level resources cannot be removed")}
	}
	was := old.Resources
	if was == nil {
		was = &corev1.ResourceRequirements{}
	}
	errs := removed(spec.Resources, was, "pod-level resource", path.Child("resources"))
	withoutResize(spec.Resources, was)
	if !apiequality.Semantic.DeepEqual(spec.Resources, was) {
		errs = append(errs, field.Forbidden(path, onlyComputing+" at pod-level"))
	}
	spec.Resources = old.Resources
	return errs
}

// resizedInit checks the change of an init container's resources, and reverts it.
func resizedInit(now, was *corev1.Container, path *field.Path) field.ErrorList {
	errs := removed(&now.Resources, &was.Resources, "resource", path.Child("resources"))
	changed := !apiequality.Semantic.DeepEqual(now, was)
	withoutResize(&now.Resources, &was.Resources)
	if !apiequality.Semantic.DeepEqual(now, was) {
		errs = append(errs, field.Forbidden(path, "only cpu and memory resources for init or sidecar containers are mutable"))
	}
	if sidecar := now.RestartPolicy != nil && *now.RestartPolicy == corev1.ContainerRestartPolicyAlways; !changed || sidecar {
		return errs
	}
	for _, policy := range now.ResizePolicy {
		if policy.RestartPolicy == corev1.RestartContainer {
			return append(errs, field.Forbidden(path, "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"))
		}
	}
	return errs
}

// removed rejects the removal of a request or a limit.
func removed(now, was *corev1.ResourceRequirements, what string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, list := range []struct {
		name     string
		now, was corev1.ResourceList
	}{{"requests", now.Requests, was.Requests}, {"limits", now.Limits, was.Limits}} {
		for name := range list.was {
			if _, ok := list.now[name]; !ok {
				errs = append(errs, field.Forbidden(path.Child(list.name), what+" "+list.name+" cannot be removed"))
				break
			}
		}
	}
	return errs
}

// withoutResize reverts CPU and memory to their previous values.
func withoutResize(now, was *corev1.ResourceRequirements) {
	back := func(now, was corev1.ResourceList) corev1.ResourceList {
		if now == nil && was == nil {
			return nil
		}
		list := corev1.ResourceList{}
		maps.Copy(list, now)
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			delete(list, name)
			if quantity, ok := was[name]; ok {
				list[name] = quantity
			}
		}
		return list
	}
	now.Limits, now.Requests = back(now.Limits, was.Limits), back(now.Requests, was.Requests)
}
