package builtin

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// withoutDisabled makes a definition drop the fields of Kubernetes' features that are disabled by
// default, before it sees the object. An update keeps a field that the old object has.
func withoutDisabled(s *kinds.Definition) {
	create := s.PrepareForCreate
	s.PrepareForCreate = func(obj scheme.Object) {
		dropDisabled(obj, nil)
		if create != nil {
			create(obj)
		}
	}
	s.Update.Prepare = withoutNewlyDisabled(s.Update.Prepare)
	for _, part := range []string{"ephemeralcontainers", "resize"} {
		if change, ok := s.Subresources[part]; ok {
			change.Prepare = withoutNewlyDisabled(change.Prepare)
			s.Subresources[part] = change
		}
	}
}

// withoutNewlyDisabled drops disabled fields that the old object does not have before prepare runs, if
// there is one.
func withoutNewlyDisabled(prepare func(obj, old scheme.Object)) func(obj, old scheme.Object) {
	return func(obj, old scheme.Object) {
		dropDisabled(obj, old)
		if prepare != nil {
			prepare(obj, old)
		}
	}
}

// dropDisabled drops the fields of Kubernetes' features that are disabled by default, unless old has
// them already; old is nil at creation.
func dropDisabled(obj, old scheme.Object) {
	if lease, ok := obj.(*coordinationv1.Lease); ok {
		if was, ok := old.(*coordinationv1.Lease); !ok || was.Spec.Strategy == nil {
			lease.Spec.Strategy = nil
		}
		if was, ok := old.(*coordinationv1.Lease); !ok || was.Spec.PreferredHolder == nil {
			lease.Spec.PreferredHolder = nil
		}
		return
	}
	if spec := podSpec(obj); spec != nil {
		was := podSpec(old)
		if was == nil {
			was = &corev1.PodSpec{}
		}
		dropDisabledSpec(spec, was)
	}
}

// dropDisabledSpec drops the disabled fields of the spec of a pod or a template.
func dropDisabledSpec(spec, was *corev1.PodSpec) {
	if was.SchedulingGroup == nil {
		spec.SchedulingGroup = nil
	}
	if len(was.EvictionResponders) == 0 {
		spec.EvictionResponders = nil
	}
	for _, feature := range podFeatures() {
		used := false
		eachPart(was, func(part *podPart) { used = used || feature.used(part) })
		if !used {
			eachPart(spec, feature.drop)
		}
	}
	if !slices.ContainsFunc(was.Volumes, func(v corev1.Volume) bool { return v.EmptyDir != nil && v.EmptyDir.Mode != nil }) {
		for i := range spec.Volumes {
			if spec.Volumes[i].EmptyDir != nil {
				spec.Volumes[i].EmptyDir.Mode = nil
			}
		}
	}
}

// podPart is a container's part of a spec in which a disabled feature has fields.
type podPart struct {
	lifecycle **corev1.Lifecycle
	probes    []*corev1.Probe
	mounts    []corev1.VolumeMount
}

// gets returns the HTTP requests of a container's probes and hooks.
func (p *podPart) gets() []*corev1.HTTPGetAction {
	var found []*corev1.HTTPGetAction
	for _, probe := range p.probes {
		if probe != nil && probe.HTTPGet != nil {
			found = append(found, probe.HTTPGet)
		}
	}
	if *p.lifecycle != nil {
		for _, hook := range []*corev1.LifecycleHandler{(*p.lifecycle).PostStart, (*p.lifecycle).PreStop} {
			if hook != nil && hook.HTTPGet != nil {
				found = append(found, hook.HTTPGet)
			}
		}
	}
	return found
}

// eachPart calls do with the parts of all containers.
func eachPart(spec *corev1.PodSpec, do func(*podPart)) {
	part := func(c *corev1.EphemeralContainerCommon) {
		do(&podPart{&c.Lifecycle, []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe}, c.VolumeMounts})
	}
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			part((*corev1.EphemeralContainerCommon)(&list[i]))
		}
	}
	for i := range spec.EphemeralContainers {
		part(&spec.EphemeralContainers[i].EphemeralContainerCommon)
	}
}

// podFeature is a disabled feature with fields in containers.
type podFeature struct {
	used func(*podPart) bool
	drop func(*podPart)
}

// podFeatures returns the disabled features: signals that stop containers, HTTP/2 and TLS in probes, and
// options of bind mounts.
func podFeatures() []podFeature {
	return []podFeature{
		{
			func(p *podPart) bool { return *p.lifecycle != nil && (*p.lifecycle).StopSignal != nil },
			func(p *podPart) {
				if l := *p.lifecycle; l != nil && l.StopSignal != nil {
					l.StopSignal = nil
					if *l == (corev1.Lifecycle{}) {
						*p.lifecycle = nil
					}
				}
			},
		},
		{
			func(p *podPart) bool {
				return slices.ContainsFunc(p.gets(), func(g *corev1.HTTPGetAction) bool { return g.Protocol != nil })
			},
			func(p *podPart) {
				for _, get := range p.gets() {
					get.Protocol = nil
				}
			},
		},
		{
			func(p *podPart) bool {
				return slices.ContainsFunc(p.probes, func(p *corev1.Probe) bool { return p != nil && p.GRPC != nil && p.GRPC.Mode != nil })
			},
			func(p *podPart) {
				for _, probe := range p.probes {
					if probe != nil && probe.GRPC != nil {
						probe.GRPC.Mode = nil
					}
				}
			},
		},
		{
			func(p *podPart) bool {
				return slices.ContainsFunc(p.mounts, func(m corev1.VolumeMount) bool { return len(m.BindMountOptions) > 0 })
			},
			func(p *podPart) {
				for i := range p.mounts {
					p.mounts[i].BindMountOptions = nil
				}
			},
		},
	}
}

// podSpec returns the spec of a pod, or of the pods that an object makes; nil if it makes none.
func podSpec(obj scheme.Object) *corev1.PodSpec {
	switch typed := obj.(type) {
	case *corev1.Pod:
		return &typed.Spec
	case *corev1.PodTemplate:
		return &typed.Template.Spec
	case *corev1.ReplicationController:
		if typed.Spec.Template == nil {
			return nil
		}
		return &typed.Spec.Template.Spec
	case *appsv1.DaemonSet:
		return &typed.Spec.Template.Spec
	case *appsv1.Deployment:
		return &typed.Spec.Template.Spec
	case *appsv1.ReplicaSet:
		return &typed.Spec.Template.Spec
	case *appsv1.StatefulSet:
		return &typed.Spec.Template.Spec
	case *batchv1.Job:
		return &typed.Spec.Template.Spec
	case *batchv1.CronJob:
		return &typed.Spec.JobTemplate.Spec.Template.Spec
	}
	return nil
}
