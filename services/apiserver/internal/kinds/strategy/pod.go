package strategy

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/defaults"
	validation "github.com/garboard/garboard/services/apiserver/internal/kinds/validation/pod"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/warnings"
)

func pod() *kinds.Definition {
	return of[*corev1.Pod]{
		Level:    kinds.Full,
		Default:  defaults.Pod,
		Create:   beginPod,
		Validate: validation.Validate,
		Update: change[*corev1.Pod]{
			Prepare: func(p, old *corev1.Pod) {
				p.Status = *old.Status.DeepCopy()
				if !apiequality.Semantic.DeepEqual(p.Spec, old.Spec) {
					p.Generation = old.Generation + 1
				}
			},
			Validate: validation.ValidateUpdate,
		},
		Subresources: map[string]change[*corev1.Pod]{"status": {
			Prepare: func(p, old *corev1.Pod) {
				p.Spec = *old.Spec.DeepCopy()
				p.DeletionTimestamp, p.OwnerReferences = nil, old.OwnerReferences
				p.Status.QOSClass = old.Status.QOSClass
				if p.Status.QOSClass == "" {
					p.Status.QOSClass = QOSClass(p)
				}
			},
			Validate: validation.ValidateStatusUpdate,
		}, "ephemeralcontainers": {Prepare: onlyEphemeral, Validate: validation.ValidateEphemeralContainers}, "resize": {
			Prepare: onlyResources,
			Validate: func(p, old *corev1.Pod) field.ErrorList {
				return validation.ValidateResize(p, old, QOSClass(old), QOSClass(p))
			},
		}},
		Warnings:         warnings.Pod,
		CreationWarnings: func(p *corev1.Pod) []string { return warnings.PodName(p.Name) },
		FieldLabels: []string{
			"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
			"status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName",
		},
		Fields:        podFields,
		Grace:         podGrace,
		ReturnDeleted: true,
	}.strategy()
}

// onlyEphemeral drops everything from a pod update but its ephemeral containers.
func onlyEphemeral(p, old *corev1.Pod) {
	containers := p.Spec.EphemeralContainers
	keepPod(p, old)
	p.Spec.EphemeralContainers = containers
	countSpec(p, old)
}

// onlyResources drops everything from a pod update but resources and resize policies. Containers
// are matched by name.
func onlyResources(p, old *corev1.Pod) {
	wanted := p.Spec
	keepPod(p, old)
	p.Spec.Resources = wanted.Resources
	for _, list := range []struct{ to, from []corev1.Container }{{p.Spec.Containers, wanted.Containers}, {p.Spec.InitContainers, wanted.InitContainers}} {
		for i := range list.to {
			for _, c := range list.from {
				if c.Name == list.to[i].Name {
					list.to[i].Resources, list.to[i].ResizePolicy = c.Resources, c.ResizePolicy
				}
			}
		}
	}
	countSpec(p, old)
}

func keepPod(p, old *corev1.Pod) {
	before := old.DeepCopy()
	keepMetadata(p, before)
	p.Spec, p.Status = before.Spec, before.Status
}

func countSpec(p, old *corev1.Pod) {
	if !apiequality.Semantic.DeepEqual(p.Spec, old.Spec) {
		p.Generation = old.Generation + 1
	}
}

func podFields(p *corev1.Pod) fields.Set {
	ip := p.Status.PodIP
	if ip == "" && len(p.Status.PodIPs) > 0 {
		ip = p.Status.PodIPs[0].IP
	}
	return fields.Set{
		"spec.nodeName": p.Spec.NodeName, "spec.restartPolicy": string(p.Spec.RestartPolicy),
		"spec.schedulerName": p.Spec.SchedulerName, "spec.serviceAccountName": p.Spec.ServiceAccountName,
		"spec.hostNetwork": strconv.FormatBool(p.Spec.HostNetwork), "status.phase": string(p.Status.Phase),
		"status.podIP": ip, "status.podIPs": ip, "status.nominatedNodeName": p.Status.NominatedNodeName,
	}
}

// podGrace returns how many seconds a deleted pod may keep running: what the request says, or else
// the pod. It is 0 if none of the pod's containers can be running.
func podGrace(p *corev1.Pod, opts *metav1.DeleteOptions) *int64 {
	var period int64
	switch {
	case opts.GracePeriodSeconds != nil:
		period = *opts.GracePeriodSeconds
	case p.Spec.TerminationGracePeriodSeconds != nil:
		period = *p.Spec.TerminationGracePeriodSeconds
	}
	if p.Spec.NodeName == "" || p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded {
		period = 0
	}
	if period < 0 {
		period = 1
	}
	return &period
}

// QOSClass returns a pod's quality-of-service class, by which a node under pressure chooses what to
// evict. The class is guaranteed if every container has limits for CPU and memory and requests
// exactly them. It is best effort if no container has a request or a limit for either, else
// burstable.
func QOSClass(p *corev1.Pod) corev1.PodQOSClass {
	set, guaranteed := false, true
	look := func(r *corev1.ResourceRequirements) {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			request, limit := r.Requests[name], r.Limits[name]
			if !request.IsZero() || !limit.IsZero() {
				set = true
			}
			if limit.IsZero() || request.Cmp(limit) != 0 {
				guaranteed = false
			}
		}
	}
	if r := p.Spec.Resources; r != nil && (len(r.Requests) > 0 || len(r.Limits) > 0) {
		look(r)
	} else {
		for _, containers := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
			for i := range containers {
				look(&containers[i].Resources)
			}
		}
	}
	switch {
	case !set:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}
